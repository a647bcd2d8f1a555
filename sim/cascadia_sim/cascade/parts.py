"""Parts of a simulated cascade, and the result of its simulation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia_sim.cascade.by_rule import MakeRule, QueueingRule, Rule
from cascadia_sim.cascade.elsewhere import Elsewhere
from cascadia_sim.cascade.stage import StageRun
from cascadia_sim.engine.dispatch import DEFAULT, Dispatch, Replica
from cascadia_sim.errors import BadInput
from cascadia_sim.iteration.timing import Ints

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class CascadeStage:
    """Arrays [n] over all requests, whether or not they come to this stage.

    Without replicas, and not `elsewhere`, a stage is not deployed and is skipped. `accept` is the gate's decision, were
    it asked; the last deployed stage always accepts. `enter`: who is let in by the question alone; None lets all in,
    as the last deployed stage does. `judged`: whose answer waits for a verdict, told of all or of each; who is not
    judged is answered here, and `accept` is then no matter; `tried`: whose answer waits all the same for verdicts that
    send nobody on, at the last stage too. `rule` makes what shares its requests among the replicas, where that is none
    of the simulator's own; it is asked once a run.
    """

    replicas: tuple[Replica, ...]
    input_tokens: Ints
    output_tokens: Ints
    cached_tokens: Ints
    accept: Bools
    enter: Bools | None = None
    judged: bool | Bools = True
    tried: Bools | None = None
    rule: MakeRule | None = None
    elsewhere: Elsewhere | None = None

    @property
    def deployed(self) -> bool:
        return bool(self.replicas) or self.elsewhere is not None

    @property
    def own_rule(self) -> Rule | QueueingRule | None:
        """Rule of one run, as it begins; None where one of the simulator's own does."""
        return self.rule() if self.rule is not None and self.replicas else None


@dataclass(frozen=True, slots=True, eq=False)
class JudgeStage:
    """Cost of a verdict: a request to `replicas`, or a delay `latency_ps` [S, n] by stage and request.

    Self-hosted, a verdict's prompt is `prompt_tokens` of instruction, the question and the answer, of which
    `cached_tokens` are in the prefix cache, and it writes `output_tokens`. Where some answers take several `verdicts`
    [S, n], one behind the other, these are one visit, which reads `read_tokens` [S, n] in all.
    """

    replicas: tuple[Replica, ...] = ()
    dispatch: Dispatch = DEFAULT
    prompt_tokens: int = 0
    output_tokens: int = 1
    latency_ps: Ints | None = None
    cached_tokens: int = 0
    read_tokens: Ints | None = None
    verdicts: Ints | None = None

    def __post_init__(self) -> None:
        if bool(self.replicas) == (self.latency_ps is not None):
            raise BadInput("judge", "needs either replicas or latency_ps", "give one of the two")


@dataclass(frozen=True, slots=True, eq=False)
class StageVisits:
    """The requests that came to a stage: their indices [m], increasing, and when; then how it served them."""

    stage: int
    requests: Ints
    arrival_ps: Ints
    run: StageRun


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """All verdicts asked for [v]: by which stage's gate, on which request, when asked and when given.

    `decides`: whether it says who goes on. `run` is the self-hosted judge's, in the same order; None for a mere delay.
    """

    stage: Ints
    requests: Ints
    arrival_ps: Ints
    finish_ps: Ints
    decides: Bools
    run: StageRun | None


@dataclass(frozen=True, slots=True, eq=False)
class CascadeRun:
    """Times per request [n]: the instants when its answer begins and is complete at the user, and the stage
    that wrote it.

    Behind a gate nothing leaves before the verdict, so both times are the verdict's. `stages` holds one entry
    for each stage that any request reached, in order.
    """

    arrival_ps: Ints
    first_byte_ps: Ints
    finish_ps: Ints
    answered_by: Ints
    stages: tuple[StageVisits, ...]
    verdicts: Verdicts | None

    @property
    def latency_ps(self) -> Ints:
        return self.finish_ps - self.arrival_ps

    @property
    def preemptions(self) -> int:
        judge = self.verdicts.run if self.verdicts else None
        return sum(v.run.preemptions for v in self.stages) + (judge.preemptions if judge else 0)


@dataclass(frozen=True, slots=True, eq=False)
class Routing:
    """Requests that come to each deployed stage, increasing: those that no stage before it answered, and it
    lets in.

    `stages` are those reached, `gates` those of them any of whose answers wait for a verdict; `judged`: whose,
    increasing; `decides`: does that verdict say whether they go on? `foresees`: whether anybody is let in, or not,
    before there is an answer.
    """

    stages: tuple[int, ...]
    gates: tuple[int, ...]
    requests: dict[int, Ints]
    judged: dict[int, Ints]
    decides: dict[int, Bools]
    foresees: bool

    def waits(self, gate: int) -> Bools:
        """Marks, among the requests that reach `gate`, those whose answer is judged."""
        marks = np.zeros(self.requests[gate].size, np.bool_)
        marks[np.searchsorted(self.requests[gate], self.judged[gate])] = True
        return marks

    def rejected(self, gate: int, stages: Sequence[CascadeStage]) -> Bools:
        """Marks, among the requests that are judged at `gate`, those that it sends on."""
        return self.decides[gate] & ~stages[gate].accept[self.judged[gate]]


def route(stages: Sequence[CascadeStage], n: int) -> Routing:
    deployed = [i for i, stage in enumerate(stages) if stage.deployed]
    if not deployed:
        raise BadInput("stages", "none is deployed", "give at least one stage a replica")
    requests: dict[int, Ints] = {}
    foresees = False
    waiting = np.ones(n, dtype=np.bool_)
    for stage in deployed:
        enter = stages[stage].enter
        inside = waiting
        if enter is not None and stage != deployed[-1]:
            foresees = True
            inside = waiting & enter
        if inside.any() or not (n or requests):
            requests[stage] = np.flatnonzero(inside)
        waiting = waiting & ~(inside & (stages[stage].accept | ~_told(stages[stage].judged, n)))
    gated = {s: _told(stages[s].judged, n) & (s != deployed[-1]) for s in requests}
    judged = {s: who[_waits(stages[s], gated[s])[who]] for s, who in requests.items()}
    judged = {s: who for s, who in judged.items() if who.size or (not n and s != deployed[-1])}
    decides = {s: gated[s][who] for s, who in judged.items()}
    return Routing(tuple(requests), tuple(judged), requests, judged, decides, foresees)


def _waits(stage: CascadeStage, gated: Bools) -> Bools:
    return gated if stage.tried is None else gated | stage.tried


def _told(of_all: bool | Bools, n: int) -> Bools:
    """One flag a request [n]: the one given for all, or each its own."""
    return np.broadcast_to(np.asarray(of_all, np.bool_), n)


def judged_tokens(stages: Sequence[CascadeStage], judge: JudgeStage, gate: int, who: Ints) -> Ints:
    """The prompt of each verdict [m] on the answers of stage `gate` to `who` [m]."""
    if judge.read_tokens is not None:
        read: Ints = judge.read_tokens[gate, who]
        return read
    stage = stages[gate]
    return stage.input_tokens[who] + stage.output_tokens[who] + judge.prompt_tokens


def verdict_tokens(judge: JudgeStage, gate: int, who: Ints) -> Ints:
    """Tokens [m] that the judge writes on the answers of stage `gate` to `who` [m]."""
    if judge.verdicts is None:
        return np.full(who.size, judge.output_tokens, np.int64)
    wrote: Ints = judge.verdicts[gate, who] * judge.output_tokens
    return wrote

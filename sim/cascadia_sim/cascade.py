"""A cascade: stages from small to large, and a judge that gates all but the last one deployed.

A request goes to the first stage; when its answer is done, it is judged; when the verdict is there, it is
either answered or goes to the next stage. A self-hosted judge is one stage that the verdicts of all gates
share, so that gate 2's verdicts queue with gate 1's, on which gate 2's arrivals depend: solved by waveform
relaxation (Lelarasmee, Ruehli and Sangiovanni-Vincentelli, 1982). Each pass simulates the stages in turn with
the verdict times known so far, until none changes. The first pass lets gate g's verdicts meet only those of
gates up to g, so that one gate needs one pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia_sim.dispatch import Dispatch
from cascadia_sim.errors import InputError
from cascadia_sim.stage import Replica, StageRun, simulate_stage
from cascadia_sim.timing import Ints

Bools = NDArray[np.bool_]

MOST_PASSES = 10


@dataclass(frozen=True, slots=True, eq=False)
class CascadeStage:
    """Arrays [n] over all requests, whether or not they come to this stage.

    Without replicas a stage is not deployed and is skipped. `accept` is the gate's decision, were it asked;
    the last deployed stage always accepts.
    """

    replicas: tuple[Replica, ...]
    input_tokens: Ints
    output_tokens: Ints
    cached_tokens: Ints
    accept: Bools


@dataclass(frozen=True, slots=True, eq=False)
class JudgeStage:
    """What a verdict costs: a request to `replicas`, or a delay `latency_ps` [S, n] by stage and request.

    Self-hosted, a verdict's prompt is `prompt_tokens` of instruction, the question and the answer, of which
    `cached_tokens` are in the prefix cache, and it writes `output_tokens`.
    """

    replicas: tuple[Replica, ...] = ()
    dispatch: Dispatch = "least-loaded"
    prompt_tokens: int = 0
    output_tokens: int = 1
    latency_ps: Ints | None = None
    cached_tokens: int = 0

    def __post_init__(self) -> None:
        if bool(self.replicas) == (self.latency_ps is not None):
            raise InputError("judge", "needs either replicas or latency_ps", "give one of the two")


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

    `run` is the self-hosted judge's, in the same order; None for a mere delay.
    """

    stage: Ints
    requests: Ints
    arrival_ps: Ints
    finish_ps: Ints
    run: StageRun | None


@dataclass(frozen=True, slots=True, eq=False)
class CascadeRun:
    """Per request [n]: when its answer begins and is complete at the user, and which stage wrote it.

    Behind a gate nothing leaves before the verdict, so both times are the verdict's. `stages` holds one entry
    for each stage that any request reached. `passes` of relaxation were made; unless `converged`, verdict
    times still changed by up to `residual_ps` in the last one.
    """

    arrival_ps: Ints
    first_byte_ps: Ints
    finish_ps: Ints
    answered_by: Ints
    stages: tuple[StageVisits, ...]
    verdicts: Verdicts | None
    passes: int
    converged: bool
    residual_ps: int

    @property
    def latency_ps(self) -> Ints:
        return self.finish_ps - self.arrival_ps

    @property
    def preemptions(self) -> int:
        judge = self.verdicts.run if self.verdicts else None
        return sum(v.run.preemptions for v in self.stages) + (judge.preemptions if judge else 0)


def simulate_cascade(
    stages: Sequence[CascadeStage],
    judge: JudgeStage | None,
    arrival_ps: Ints,
    dispatch: Dispatch = "weighted",
) -> CascadeRun:
    """Serves requests [n] that arrive at `arrival_ps`. `judge` may be None where one stage is deployed."""
    deployed = [i for i, stage in enumerate(stages) if stage.replicas]
    if not deployed:
        raise InputError("stages", "none is deployed", "give at least one stage a replica")
    if len(deployed) > 1 and judge is None:
        raise InputError("judge", f"missing, but {len(deployed)} stages need a gate", "give a JudgeStage")
    return _Cascade(stages, deployed, judge, np.asarray(arrival_ps, np.int64), dispatch).run()


class _Cascade:
    """One run's relaxation: the visits and verdict times of the last pass, stage by stage."""

    def __init__(
        self,
        stages: Sequence[CascadeStage],
        deployed: list[int],
        judge: JudgeStage | None,
        arrival_ps: Ints,
        dispatch: Dispatch,
    ) -> None:
        self.stages = stages
        self.deployed = deployed
        self.gates = deployed[:-1]
        self.judge = judge
        self.arrival_ps = arrival_ps
        self.dispatch = dispatch
        self.reached = _reached(stages, deployed, arrival_ps.size)
        self.visits: dict[int, StageVisits] = {}
        self.verdict_ps: dict[int, Ints] = {}
        self.judge_run: StageRun | None = None

    def run(self) -> CascadeRun:
        gates = [g for g in self.gates if self.reached[g].size]
        for gate in gates:
            self._visit(gate)
            self._judge([g for g in gates if g in self.visits])
        passes, residual_ps = 1, 0
        shared = self.judge is not None and bool(self.judge.replicas) and len(gates) > 1
        while shared:
            before = self.verdict_ps
            for gate in gates[1:]:
                self._visit(gate)
            self._judge(gates)
            passes += 1
            residual_ps = max(int(np.abs(self.verdict_ps[g] - before[g]).max()) for g in gates)
            if residual_ps == 0 or passes == MOST_PASSES:
                break
        if self.reached[self.deployed[-1]].size:
            self._visit(self.deployed[-1])
        return self._result(gates, passes, residual_ps)

    def _visit(self, stage: int) -> None:
        """Simulates a stage on what the verdict times known so far send there."""
        s, who = self.stages[stage], self.reached[stage]
        at = self.deployed.index(stage)
        arrival_ps = self.arrival_ps[who]
        if at > 0:
            before = self.deployed[at - 1]
            arrival_ps = self.verdict_ps[before][~self.stages[before].accept[self.reached[before]]]
        run = simulate_stage(
            s.replicas,
            self.dispatch,
            arrival_ps,
            s.input_tokens[who],
            s.output_tokens[who],
            s.cached_tokens[who],
        )
        self.visits[stage] = StageVisits(stage, who, arrival_ps, run)

    def _judge(self, gates: list[int]) -> None:
        """Verdict times of `gates` from the finish times of their stages' last simulation."""
        judge = self.judge
        assert judge is not None
        asked = {g: self.visits[g].run.finish_ps for g in gates}
        if judge.latency_ps is not None:
            self.verdict_ps = {g: asked[g] + judge.latency_ps[g, self.reached[g]] for g in gates}
            return
        arrival_ps = np.concatenate([asked[g] for g in gates])
        tokens = np.concatenate([self._judged_tokens(g) for g in gates])
        n = arrival_ps.size
        self.judge_run = simulate_stage(
            judge.replicas,
            judge.dispatch,
            arrival_ps,
            tokens + judge.prompt_tokens,
            np.full(n, judge.output_tokens, np.int64),
            np.full(n, judge.cached_tokens, np.int64),
        )
        ends = np.cumsum([asked[g].size for g in gates])[:-1]
        self.verdict_ps = dict(zip(gates, np.split(self.judge_run.finish_ps, ends), strict=True))

    def _judged_tokens(self, gate: int) -> Ints:
        who = self.reached[gate]
        return self.stages[gate].input_tokens[who] + self.stages[gate].output_tokens[who]

    def _result(self, gates: list[int], passes: int, residual_ps: int) -> CascadeRun:
        n = self.arrival_ps.size
        first_byte_ps, finish_ps = np.empty(n, np.int64), np.empty(n, np.int64)
        answered_by = np.empty(n, np.int64)
        for stage, visits in self.visits.items():
            who = visits.requests
            gated = stage in self.verdict_ps
            # Those whom a later stage answers instead are overwritten there.
            first_byte_ps[who] = self.verdict_ps[stage] if gated else visits.run.first_token_ps
            finish_ps[who] = self.verdict_ps[stage] if gated else visits.run.finish_ps
            answered_by[who] = stage
        return CascadeRun(
            arrival_ps=self.arrival_ps,
            first_byte_ps=first_byte_ps,
            finish_ps=finish_ps,
            answered_by=answered_by,
            stages=tuple(self.visits.values()),
            verdicts=self._verdicts(gates) if gates else None,
            passes=passes,
            converged=residual_ps == 0,
            residual_ps=residual_ps,
        )

    def _verdicts(self, gates: list[int]) -> Verdicts:
        return Verdicts(
            stage=np.concatenate([np.full(self.reached[g].size, g, np.int64) for g in gates]),
            requests=np.concatenate([self.reached[g] for g in gates]),
            arrival_ps=np.concatenate([self.visits[g].run.finish_ps for g in gates]),
            finish_ps=np.concatenate([self.verdict_ps[g] for g in gates]),
            run=self.judge_run,
        )


def _reached(stages: Sequence[CascadeStage], deployed: list[int], n: int) -> dict[int, Ints]:
    """Which requests come to each deployed stage: those that every stage before it rejected."""
    reached = {}
    who = np.arange(n, dtype=np.int64)
    for stage in deployed:
        reached[stage] = who
        who = who[~stages[stage].accept[who]]
    return reached

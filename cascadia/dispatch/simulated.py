"""Rules that learn over simulated replicas: what a router knows of its own, kept as a router keeps it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from cascadia.dispatch.candidate import Asked
from cascadia.dispatch.earliest_finish import EarliestFinish, Trial
from cascadia.dispatch.latency_model import load_of

if TYPE_CHECKING:
    from cascadia.dispatch.matching import Matching


@dataclass(slots=True)
class Known:
    """A replica as a router knows it."""

    name: str
    kind: str
    weight: float = 1.0
    running: int = 0
    outstanding_tokens: int = 0
    load: float = 0.0
    max_concurrency: int = 1 << 30

    def count(self, requests: int, tokens: int) -> None:
        """Counts so many more, or fewer, in hand."""
        self.running += requests
        self.outstanding_tokens += tokens
        self.load = load_of(self.running, self.outstanding_tokens)


@dataclass(slots=True)
class Simulated:
    """`rule` as the simulator asks it (`cascadia_sim.cascade.by_rule.Rule`), over `replicas` in its order.

    Answers are wanted within `latency_max_s`, and have at most `most_output` tokens where that is known.
    """

    rule: EarliestFinish
    replicas: Sequence[Known]
    latency_max_s: float = inf
    most_output: int | None = None
    _trials: dict[int, tuple[Trial, float]] = field(default_factory=dict)

    def choose(self, request: int, input_tokens: int, now_s: float) -> int:
        asked = Asked(input_tokens, self.most_output, None, self.latency_max_s)
        chosen = self.rule.choose(self.replicas, asked)
        replica = self.replicas[chosen]
        trial = self.rule.given(replica, asked)
        self._trials[request] = trial, now_s
        replica.count(1, trial.tokens)
        return chosen

    def ended(self, request: int, replica: int, output_tokens: int, now_s: float) -> None:
        trial, since_s = self._trials.pop(request)
        self.replicas[replica].count(-1, -trial.tokens)
        self.rule.ended(trial, output_tokens, now_s - since_s)


@dataclass(slots=True)
class Queued:
    """A request that waits at the router."""

    request: int
    asked: Asked
    since_s: float
    overtaken: int = 0
    held_s: float | None = None


@dataclass(slots=True)
class SimulatedMatching:
    """`rule` as the simulator asks it (`cascadia_sim.cascade.by_rule.QueueingRule`); else as `Simulated`.

    Requests wait in the order in which they come.
    """

    rule: "Matching"
    replicas: Sequence[Known]
    latency_max_s: float = inf
    most_output: int | None = None
    again_s: float = inf
    waiting: list[Queued] = field(default_factory=list)
    _begun: list[tuple[int, int]] = field(default_factory=list)
    _trials: dict[int, tuple[Trial, float]] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        return bool(self.waiting)

    def came(self, request: int, input_tokens: int, now_s: float) -> None:
        asked = Asked(input_tokens, self.most_output, None, self.latency_max_s)
        chosen = None if self.waiting else self.rule.place(asked, self.replicas, now_s)
        queued = Queued(request, asked, now_s)
        if chosen is None:
            self.waiting.append(queued)
        else:
            self._begin(queued, chosen, now_s)

    def placed(self, now_s: float) -> Sequence[tuple[int, int]]:
        if self.waiting:
            self._match(now_s)
        begun, self._begun = self._begun, []
        return begun

    def ended(self, request: int, replica: int, output_tokens: int, now_s: float) -> None:
        trial, since_s = self._trials.pop(request)
        self.replicas[replica].count(-1, -trial.tokens)
        self.rule.ended(trial, output_tokens, now_s - since_s)

    def _match(self, now_s: float) -> None:
        self.again_s = inf
        if not self.rule.looks(self.replicas):
            # As who waits looks for itself, in turn.
            while (
                self.waiting
                and (at := self.rule.place(self.waiting[0].asked, self.replicas, now_s)) is not None
            ):
                self._begin(self.waiting.pop(0), at, now_s)
            return
        matched = self.rule.match(self.waiting, self.replicas, now_s)
        self.again_s = matched.again_s
        for given in matched.given:
            self._begin(self.waiting[given.waiting], given.replica, now_s)
        begun = {given.waiting for given in matched.given}
        self.waiting = [one for at, one in enumerate(self.waiting) if at not in begun]

    def _begin(self, queued: Queued, at: int, now_s: float) -> None:
        replica = self.replicas[at]
        trial = self.rule.given(replica, queued.asked, now_s)
        self._trials[queued.request] = trial, now_s
        replica.count(1, trial.tokens)
        self._begun.append((queued.request, at))

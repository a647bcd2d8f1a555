"""The earliest finish over simulated replicas: what a router knows of its own, kept as a router keeps it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from cascadia.dispatch.candidate import Asked
from cascadia.dispatch.earliest_finish import EarliestFinish, Trial
from cascadia.dispatch.latency_model import load_of


@dataclass(slots=True)
class Known:
    """A replica as a router knows it."""

    name: str
    kind: str
    weight: float = 1.0
    running: int = 0
    outstanding_tokens: int = 0
    load: float = 0.0

    def count(self, requests: int, tokens: int) -> None:
        """So many more, or fewer, are in hand."""
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

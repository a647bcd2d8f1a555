"""Candidate of a choice between replicas: what the choice looks at."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Candidate(Protocol):
    """A replica that may be given the request. `weight` > 0 is its planned share; only ratios count.

    `outstanding_tokens` is an estimate of the tokens, in and out, of what it was given and has not finished.
    """

    @property
    def name(self) -> str: ...
    @property
    def weight(self) -> float: ...
    @property
    def outstanding_tokens(self) -> int: ...


class Balancer(Protocol):
    """Chooses an index of `candidates`, which is not empty, for a request of `tokens`.

    `prefix` is a hash of how the request begins, or None where it has no prefix worth keeping together.
    """

    def choose(self, candidates: Sequence[Candidate], tokens: int, prefix: int | None) -> int: ...


class TimedCandidate(Candidate, Protocol):
    """A replica whose answers are timed: those of one `kind` (GPU and shape) take as long, given as much in hand.

    `load` is what it has in hand (`cascadia.dispatch.latency_model.load_of`).
    """

    @property
    def kind(self) -> str: ...
    @property
    def load(self) -> float: ...


class Asked(NamedTuple):
    """A request, as far as it is known beforehand: the tokens that it reads, and the most that it may write.

    `left_s` is the time in which its answer is wanted; infinite where it may take any.
    """

    tokens: int
    most_output: int | None = None
    prefix: int | None = None
    left_s: float = float("inf")

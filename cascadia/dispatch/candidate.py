"""Candidate of a choice between replicas: what the choice looks at."""

from collections.abc import Sequence
from math import inf
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
    """A request, as far as it is known beforehand: the tokens that it reads, and the most of each of its `answers`,
    which are written side by side.

    `left_s` is the time in which its answer is wanted; infinite where it may take any.
    """

    tokens: int
    most_output: int | None = None
    prefix: int | None = None
    left_s: float = inf
    answers: int = 1


class PlacedCandidate(TimedCandidate, Protocol):
    """A replica that is `running` so many requests, of at most `max_concurrency`."""

    @property
    def running(self) -> int: ...
    @property
    def max_concurrency(self) -> int: ...


class Waiting(Protocol):
    """A request that waits since `since_s`; it was `overtaken` by so many, and left beside a free place at `held_s`."""

    @property
    def asked(self) -> Asked: ...
    @property
    def since_s(self) -> float: ...

    overtaken: int
    held_s: float | None


class Given(NamedTuple):
    """The request at place `waiting` of those who wait goes to the replica at place `replica`."""

    waiting: int
    replica: int


class Matched(NamedTuple):
    """`given` are to be started. At `again_s` somebody has waited enough beside a free place; infinite: nobody will."""

    given: list[Given]
    again_s: float = inf

"""Candidate of a choice between replicas: what the choice looks at."""

from collections.abc import Sequence
from typing import Protocol


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

"""Requests that begin alike go to one replica, whose prefix cache has that beginning, unless it is loaded too much.

Consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2018): replicas stand at many points of a
ring; a request goes to the first replica clockwise from its hash whose load stays within `bound` times its share of all
work. So a replica that comes or goes moves its own requests only, and a popular prefix spills over to the next replica.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from cascadia.dispatch.candidate import Candidate
from cascadia.dispatch.least_outstanding import LeastOutstanding

POINTS = 100
"""Of an average replica on the ring: shares are then even within about 10 %."""


@dataclass(slots=True)
class PrefixAffinity:
    """`bound` > 1. Requests without a prefix go by `least`."""

    bound: float = 1.25
    least: LeastOutstanding = field(default_factory=LeastOutstanding)
    _shape: tuple[tuple[str, float], ...] = ()
    _points: list[int] = field(default_factory=list)
    _owners: list[int] = field(default_factory=list)

    def choose(self, candidates: Sequence[Candidate], tokens: int = 0, prefix: int | None = None) -> int:
        if len(candidates) == 1:
            return 0
        if prefix is None:
            return self.least.choose(candidates, tokens)
        self._arrange(candidates)
        work = sum(c.outstanding_tokens for c in candidates) + tokens
        weight = sum(c.weight for c in candidates)
        start = bisect_right(self._points, prefix & _MASK)
        # A replica stands at many points; one that had no room has none at its next point either.
        seen: set[int] = set()
        for step in range(len(self._owners)):
            owner = self._owners[(start + step) % len(self._owners)]
            if owner in seen:
                continue
            seen.add(owner)
            candidate = candidates[owner]
            within = self.bound * work * candidate.weight / weight
            # A request larger than any share must go somewhere: an idle replica always has room.
            if candidate.outstanding_tokens == 0 or candidate.outstanding_tokens + tokens <= within:
                return owner
        # Not reached while bound > 1 in total weight, but for rounding where one request is most of the work.
        return min(range(len(candidates)), key=lambda i: _relative(candidates[i], tokens))

    def _arrange(self, candidates: Sequence[Candidate]) -> None:
        shape = tuple((c.name, c.weight) for c in candidates)
        if shape == self._shape:
            return
        mean = sum(weight for _, weight in shape) / len(shape)
        ring = sorted(
            (point_of(f"{name}#{k}".encode()), i)
            for i, (name, weight) in enumerate(shape)
            for k in range(max(1, round(POINTS * weight / mean)))
        )
        self._points = [point for point, _ in ring]
        self._owners = [owner for _, owner in ring]
        self._shape = shape


_MASK = (1 << 64) - 1


def point_of(content: bytes) -> int:
    """Point on the ring where `content` falls: 64 bits, the same in every process."""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big")


def _relative(candidate: Candidate, tokens: int) -> float:
    return (candidate.outstanding_tokens + tokens) / candidate.weight

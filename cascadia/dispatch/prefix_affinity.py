"""Requests that begin alike go to one replica, whose prefix cache has that beginning, unless it is loaded too much.

Consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2018): replicas stand at many points of a
ring; a request goes to the first replica clockwise from its hash whose load stays within `bound` times its share of all
work. So a replica that comes or goes moves its own requests only, and a popular prefix spills over to the next replica.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from cascadia.dispatch.candidate import Candidate
from cascadia.dispatch.least_outstanding import LeastOutstanding

POINTS = 100
"""Of an average replica on the ring: shares are then even within about 10 %."""
UNEVEN = 1.25
"""By so much the replicas' mean weight may change before all get as many points anew as are theirs."""
FORGOTTEN = 10_000
"""Choices after which a replica that was no candidate in any of them leaves the ring, when others come."""


@dataclass(slots=True)
class PrefixAffinity:
    """`bound` > 1. Requests without a prefix go by `least`.

    Who is no candidate for a while, being full, keeps its points: they are passed by. Of hundreds of replicas some are
    full at nearly any time, and a ring made anew for each request would cost more than all else that a router does.
    """

    bound: float = 1.25
    least: LeastOutstanding = field(default_factory=LeastOutstanding)
    _ring: list[tuple[int, str]] = field(default_factory=list)
    _weights: dict[str, float] = field(default_factory=dict)
    """Of those on the ring."""
    _mean: float = 0.0
    """Weight that has `POINTS`."""
    _latest: dict[str, int] = field(default_factory=dict)
    """Number of the latest choice that each was a candidate of."""
    _choices: int = 0

    def choose(self, candidates: Sequence[Candidate], tokens: int = 0, prefix: int | None = None) -> int:
        if len(candidates) == 1:
            return 0
        if prefix is None:
            return self.least.choose(candidates, tokens)
        self._choices = now = self._choices + 1
        latest, weights = self._latest, self._weights
        work, weight, known = tokens, 0.0, True
        for c in candidates:
            name, its = c.name, c.weight
            latest[name] = now
            work += c.outstanding_tokens
            weight += its
            if weights.get(name) != its:
                known = False
        if not known:
            self._arrange(candidates)
        bounded = self.bound * work
        # A request larger than any share must go somewhere: an idle replica always has room.
        roomy = {
            c.name: i
            for i, c in enumerate(candidates)
            if c.outstanding_tokens == 0 or c.outstanding_tokens + tokens <= bounded * c.weight / weight
        }
        if roomy:
            ring = self._ring
            start = bisect_left(ring, ((prefix & _MASK) + 1,))
            for step in range(start - len(ring), start):
                at = roomy.get(ring[step][1])
                if at is not None:
                    return at
        # Where each has little in hand beside the request: no share has room for it.
        return min(range(len(candidates)), key=lambda i: _relative(candidates[i], tokens))

    def _arrange(self, candidates: Sequence[Candidate]) -> None:
        """Puts who is new, or weighs something else, on the ring: all of them only where the mean is another now."""
        told = {c.name: c.weight for c in candidates}
        since = self._choices - FORGOTTEN
        stay = {n: w for n, w in self._weights.items() if told.get(n, w) == w and self._latest[n] > since}
        self._weights = stay | told
        self._latest = {name: self._latest[name] for name in self._weights}
        mean = sum(self._weights.values()) / len(self._weights)
        if not mean / UNEVEN < self._mean < mean * UNEVEN:
            self._mean, stay = mean, {}
        self._ring = [point for point in self._ring if point[1] in stay]
        self._ring += self._points(name for name in self._weights if name not in stay)
        # Those that stay are sorted already, so this takes little longer than to look at them.
        self._ring.sort()

    def _points(self, names: Iterable[str]) -> list[tuple[int, str]]:
        return [
            (point_of(f"{name}#{k}".encode()), name)
            for name in names
            for k in range(max(1, round(POINTS * self._weights[name] / self._mean)))
        ]


_MASK = (1 << 64) - 1


def point_of(content: bytes) -> int:
    """Point on the ring where `content` falls: 64 bits, the same in every process."""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big")


def _relative(candidate: Candidate, tokens: int) -> float:
    return (candidate.outstanding_tokens + tokens) / candidate.weight

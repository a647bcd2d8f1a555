"""Weighted round robin, smoothly: a replica's turns are spread evenly among those of the others.

Each choice credits every candidate with its weight, takes the one with the most credit, and charges it the sum of
weights. After W choices among the same candidates with integer weights of sum W, each was chosen as often as its weight
says, and at no time is any more than one turn ahead of its share.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cascadia.dispatch.candidate import Candidate


@dataclass(slots=True)
class SmoothRoundRobin:
    """`credit` is by name, and outlasts an absence: at most one turn is owed to whoever comes back.

    >>> from types import SimpleNamespace
    >>> replicas = [SimpleNamespace(name=name, weight=weight) for name, weight in [("a", 3), ("b", 1)]]
    >>> robin = SmoothRoundRobin()
    >>> [replicas[robin.choose(replicas)].name for _ in range(8)]
    ['a', 'a', 'b', 'a', 'a', 'a', 'b', 'a']
    """

    credit: dict[str, float] = field(default_factory=dict)

    def choose(self, candidates: Sequence[Candidate], tokens: int = 0, prefix: int | None = None) -> int:  # noqa: ARG002
        if len(candidates) == 1:
            return 0
        credit = self.credit
        total, best, most = 0.0, 0, float("-inf")
        for i, candidate in enumerate(candidates):
            weight = candidate.weight
            held = credit.get(candidate.name, 0.0) + weight
            credit[candidate.name] = held
            total += weight
            if held > most:
                best, most = i, held
        credit[candidates[best].name] = most - total
        return best

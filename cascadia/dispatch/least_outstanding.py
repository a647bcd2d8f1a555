"""The replica with the least work in hand for its share, were it given the request.

Work is counted in tokens, since one request may be a thousand times another, and divided by the planned share, since
replicas of a stage may be of unequal shapes: of two idle ones the larger comes first.

Where it looks first goes round, to the place behind the replica it chose last. So equal loads are taken in turn, and
several routers, each of which knows of its own requests only, do not all begin with the same replica. Two choices at
random (Mitzenmacher, 2001), the usual cure for that, are worse with one to eight routers (docs/benchmarks/fidelity.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cascadia.dispatch.candidate import Candidate

LOOKED_AT = 32
"""Of more replicas than this, so many are compared: those that come next in turn."""


@dataclass(slots=True)
class LeastOutstanding:
    """`turn`: the place among the candidates where it looks first."""

    turn: int = 0

    def choose(self, candidates: Sequence[Candidate], tokens: int = 0, prefix: int | None = None) -> int:  # noqa: ARG002
        n = len(candidates)
        if n == 1:
            return 0
        first = self.turn if self.turn < n else 0
        looked = candidates[first : first + LOOKED_AT]
        if first and len(looked) < LOOKED_AT:
            # Round the end, up to where it began.
            looked = [*looked, *candidates[: min(first, LOOKED_AT - len(looked))]]
        best, least = 0, float("inf")
        for at, candidate in enumerate(looked):
            load = (candidate.outstanding_tokens + tokens) / candidate.weight
            if load < least:
                best, least = at, load
        chosen = first + best if first + best < n else first + best - n
        # So that equal ones are taken in turn, and of very many replicas others are looked at next time.
        self.turn = chosen + 1
        return chosen

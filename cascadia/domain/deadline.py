"""Deadline of a search: the instant by which it ends with the best that it has, and what it left out for that.

Searches are counted in simulated requests, so that plans can be repeated; time only ends what takes too long. Each
part of a search gets a share of what is left, so that the first does not use up the time of all.
"""

import time
from collections.abc import Callable, Iterable
from math import inf

TIME_LIMIT_S = 300.0
"""Time that a plan may take where nobody says."""
PLANNED = 0.8
"""Share of it for the search; the rest is for what is made of the plan."""


class Deadline:
    """An instant; none by default. Parts of it remember together what was left out."""

    def __init__(
        self,
        seconds: float = inf,
        *,
        clock: Callable[[], float] = time.monotonic,
        left_out: dict[str, None] | None = None,
    ) -> None:
        self._clock = clock
        self._ends_s = clock() + seconds
        self._left_out: dict[str, None] = {} if left_out is None else left_out

    @property
    def left_s(self) -> float:
        """Seconds until then; 0 afterwards."""
        return max(self._ends_s - self._clock(), 0.0)

    @property
    def passed(self) -> bool:
        return self.left_s <= 0.0

    def leaves_out(self, what: str) -> bool:
        """Tells whether it has passed; then `what` was left out for it."""
        if self.passed:
            self._left_out[what] = None
        return self.passed

    def part(self, share: float) -> "Deadline":
        """Deadline after that share of what is left."""
        return Deadline(self.left_s * share, clock=self._clock, left_out=self._left_out)

    def apart(self, share: float = 1.0) -> "Deadline":
        """Deadline after that share of what is left, of a search beside: what that leaves out is not left out here."""
        return Deadline(self.left_s * share, clock=self._clock)

    def in_part(self, what: str) -> tuple[str, ...]:
        """Of a search beside, which is `what`: what the search that it stands beside has left out for it."""
        return (f"a part of {what}",) if self._left_out else ()

    def has_left_out(self, names: Iterable[str]) -> None:
        """Takes note of what was left out for it elsewhere."""
        self._left_out |= dict.fromkeys(names)

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(self._left_out)

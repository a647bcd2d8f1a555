"""Share of the time of late that something was so."""

from math import exp

LATELY_S = 3600.0
"""What was so long ago counts e times less than what is now."""


class Share:
    """From look to look; 0 before the first."""

    def __init__(self) -> None:
        self._at_s: float | None = None
        self._share = 0.0

    def share(self, at_s: float, so: bool) -> float:
        """The share (0-1), what was since the look before taken to be as it is now."""
        kept = 1.0 if self._at_s is None else exp(-(at_s - self._at_s) / LATELY_S)
        self._at_s = at_s
        self._share = kept * self._share + (1.0 - kept) * so
        return self._share

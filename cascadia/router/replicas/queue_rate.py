"""Rate at which a queue moves, so that nobody is let in who would wait in vain."""

LEARNS = 0.02
"""Weight of the latest gap: engines end their answers in batches, and a gap within one says little."""


class Pace:
    """Mean seconds between ends of requests while others wait; 0 until that has been seen."""

    __slots__ = ("gap_s", "last_s")

    def __init__(self) -> None:
        self.gap_s = 0.0
        self.last_s: float | None = None
        """Of the last end; set to None by one while nobody waited, which says nothing of a queue."""

    def ended(self, now_s: float) -> None:
        """A request ended while others waited."""
        if self.last_s is not None:
            gap_s = now_s - self.last_s
            self.gap_s += LEARNS * (gap_s - self.gap_s) if self.gap_s else gap_s
        self.last_s = now_s

"""Pace of a stage: how fast its queue moves, so that nobody is let in who would wait in vain, and how long its answers
take, so that nobody asks it who would be late.
"""

LEARNS = 0.02
"""Weight of the latest gap: engines end their answers in batches, and a gap within one says little."""
ANSWER_LEARNS = 0.1
"""Weight of the latest answer in a stage's typical time."""
MOST = 4.0
"""Typical times that one answer counts for at most: a single one that took minutes is not what the next will take."""
MOVES = 0.1
"""Share of the 90th percentile by which the latest answer moves it."""
IN_A_ROW = 3
"""So many answers in a row that were given up beyond the 90th percentile are no chance: 1 in 1,000, were it right."""
PASSED = 32
"""Requests that pass a stage over before one looks whether it is quicker by now: 3 % of them may be late for it."""
MOST_PASSED = 4096
"""As many at most, where each that looked was late: twice as many each time."""


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


class AnswerTimes:
    """`typical_s` is how long answers take, and `p90_s` nine in ten of them at most; 0 where that is not known.

    Who is likely to be late passes the stage over, and so teaches nothing. Lest a bad hour count for ever, now and then
    one `looks`; an answer that it gets in time halves what was thought of the stage.
    """

    __slots__ = ("_late", "_least_s", "_looked", "_looked_s", "_passed", "_patience", "p90_s", "typical_s")

    def __init__(self) -> None:
        self.typical_s = 0.0
        self.p90_s = 0.0
        self._late = 0
        """Given up in a row, beyond `p90_s`, after `_least_s` at least."""
        self._least_s = 0.0
        self._passed = 0
        """Requests that passed the stage over since anything was learnt of it."""
        self._patience = PASSED
        self._looked = False
        """Whether one of them looked."""
        self._looked_s = 0.0

    def took(self, seconds: float) -> None:
        """A whole answer did."""
        p90_s, typical_s = self.p90_s, self.typical_s
        if not typical_s:
            self.p90_s, self.typical_s = max(seconds, p90_s), seconds
        else:
            # It rests where one in ten is above it.
            moved_s = p90_s * (1 + 0.9 * MOVES if seconds > p90_s else 1 - 0.1 * MOVES)
            self.p90_s = max(seconds, p90_s / 2) if self._looked and seconds < p90_s else moved_s
            self.typical_s += ANSWER_LEARNS * (min(seconds, MOST * typical_s) - typical_s)
        self._late = self._passed = 0
        self._looked, self._patience = False, PASSED

    def outlasted(self, seconds: float) -> None:
        """An answer was given up after so long: it would have taken longer."""
        looked = self._looked
        self._looked, self._passed = False, 0
        if looked:
            self._patience = min(MOST_PASSED, 2 * self._patience)
        if seconds <= self.p90_s:
            return
        self._least_s = min(seconds, self._least_s) if self._late else seconds
        self._late += 1
        if self._late >= IN_A_ROW:
            # Above it: who has as long must not try next.
            self.p90_s, self._late = (1 + MOVES) * self._least_s, 0

    def looks(self, now_s: float) -> bool:
        """A request is about to pass the stage over; tells whether it is the one that asks it all the same."""
        self._passed += 1
        if self._passed < self._patience or now_s - self._looked_s < self.p90_s:
            return False
        self._passed, self._looked, self._looked_s = 0, True, now_s
        return True

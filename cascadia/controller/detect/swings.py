"""Memory of changes, by which one that comes and goes is told from one that stays.

Lengths that go to and fro within minutes (Azure's conversations: 100 to 200 tokens and back each ten) are a change at
each turn. Planning for each turn plans for a traffic that has gone when the plan is there, and who learns anew at each
turn what is usual knows nothing when traffic really changes. So a value that was twice as high and as low within the
hour swings: both are usual then.
"""

from collections import deque

SWING_S = 3600.0
FEWEST = 2
"""Changes of a value within that time, between whose levels another is a swing."""
SLACK = 0.1
"""Share of their distance that it may lie beyond."""


class Swings:
    """Changes of one value within the last `SWING_S`."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float, float]] = deque()

    def back_again(self, at_s: float, before: float, since: float) -> bool:
        """Adds a change from `before` to `since`, and tells whether those of the hour had been there already."""
        while self._seen and self._seen[0][0] < at_s - SWING_S:
            self._seen.popleft()
        levels = [level for _, *both in self._seen for level in both if level == level]
        swings = False
        if len(self._seen) >= FEWEST and levels:
            low, high = min(levels), max(levels)
            slack = SLACK * (high - low)
            swings = low - slack <= since <= high + slack
        self._seen.append((at_s, before, since))
        return swings

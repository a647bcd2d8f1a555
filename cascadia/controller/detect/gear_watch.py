"""Gear watch: holds the plan in force to the gears that it foresaw its requests in.

A gear's place is 0 for the heaviest of the ladder and 1 for the lightest; a plan tells the mean place m of its
requests. With x in [0, 1] the mean of a window's, s the slack and c = m + s, the bets 1 - b + b x / c have means of at
most 1 while x is at most c in the mean, whatever its distribution (Waudby-Smith and Ramdas 2024); they pay where gears
are lighter: the load is more than was planned for. The same on 1 - x bets on heavier ones, so on less. As in
`e_detector.py`, summed by R <- (1 + R) e the mean R of all bets is at most the number of windows in the mean, so that
R >= A takes at least A. What is assumed is that a window's mean does not hang on those before it: a load that stays for
hours is a change.
"""

from collections import deque
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cascadia.controller.detect.detect import WEEK_S
from cascadia.controller.detect.windows import Samples
from cascadia.domain.plan import Plan
from cascadia.domain.workload import Floats, Ints

WINDOW_S = 600.0
FALSE_ALARM_S = 4 * WEEK_S
"""Without a false alarm in the mean, at least."""
FEWEST = 20
"""Requests of a window that count."""
MOST = 1000
"""Windows of which the mean is told: a week."""
BETS = np.array([0.2, 0.5, 0.8])
"""From cautious (finds a small shift in many windows) to bold (finds a large one in few)."""


@dataclass(frozen=True, slots=True)
class OtherGears:
    """Requests were in gears whose mean place is `seen`, for `windows` by now, of `foreseen`."""

    load: Literal["more", "less"]
    seen: float
    foreseen: float
    windows: int

    def __str__(self) -> str:
        gears = "lighter" if self.load == "more" else "heavier"
        hours = self.windows * WINDOW_S / 3600.0
        then = "" if self.load == "more" else ": GPUs may be given back"
        return (
            f"requests are in {gears} gears than planned for, since {hours:.1f} h: {100 * self.seen:.0f} % of the way"
            f" from the heaviest to the lightest, of {100 * self.foreseen:.0f} % foreseen{then}"
        )


class GearWatch:
    """Evidence against what a plan of so many `gears` foresaw, from `from_s` on. `slack` (0-1): places by which gears
    may differ."""

    def __init__(self, foreseen: float, gears: int, slack: float, from_s: float) -> None:
        self.foreseen = foreseen
        self._gears = gears
        self._slack = slack
        self._from_s = from_s
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._sums: Floats = np.zeros((2, len(BETS)))
        self._streaks: Floats = np.ones((2, len(BETS)))
        self._since: Ints = np.zeros((2, len(BETS)), np.int64)
        self._places = deque[float](maxlen=MOST)

    @classmethod
    def of(cls, plan: Plan, slack: float, from_s: float) -> "GearWatch | None":
        """None where a plan has one gear, or does not tell."""
        foreseen = foreseen_place(plan)
        return None if foreseen is None else cls(foreseen, len(plan.gears), slack, from_s)

    def feed(self, samples: Samples, until_s: float) -> OtherGears | None:
        """Feeds the windows that are complete by `until_s`; the last alarm among them."""
        found = None
        while self._from_s + WINDOW_S <= until_s:
            window = samples.between(self._from_s, self._from_s + WINDOW_S)
            self._from_s += WINDOW_S
            if window.gear is None:
                continue
            told = window.gear[(window.gear >= 0) & (window.gear < self._gears)]
            if len(told) >= FEWEST:
                found = self.add(float(told.mean()) / (self._gears - 1)) or found
        return found

    def add(self, place: float) -> OtherGears | None:
        """Adds a window's mean place. After an alarm what was seen is what is foreseen: it is said once."""
        self._places.append(place)
        x = np.array([[place], [1.0 - place]])
        bound = np.array([[self.foreseen], [1.0 - self.foreseen]]) + self._slack
        # Nothing lies beyond the ladder's end.
        won = 1.0 - BETS + np.where(bound < 1.0, BETS * x / bound, 0.0)
        self._sums = (1.0 + self._sums) * won
        # A bet that has lost all it won dates no change: it begins anew, as in `e_detector.py`.
        lost = self._streaks <= 1.0
        self._since = np.where(lost, 0, self._since) + 1
        self._streaks = np.where(lost, 1.0, self._streaks) * won
        if self._sums.mean() < FALSE_ALARM_S / WINDOW_S:
            return None
        side, bet = divmod(int(self._sums.argmax()), len(BETS))
        windows = min(int(self._since[side, bet]), len(self._places))
        seen = float(np.mean(list(self._places)[-windows:]))
        found = OtherGears("less" if side else "more", seen, self.foreseen, windows)
        self.foreseen = seen
        self._begin_anew()
        return found


def foreseen_place(plan: Plan) -> float | None:
    """The mean place of a plan's requests; None where it has one gear, or does not tell."""
    told = [gear.predicted for gear in plan.gears]
    shares = np.array([0.0 if each is None else each.request_share for each in told])
    if len(told) < 2 or None in told or not shares.sum():
        return None
    return float(shares @ np.linspace(0.0, 1.0, len(told)) / shares.sum())

"""Apparate's own control loop (section 3.2 and 3.3): thresholds tuned whenever a window loses too much, ramps
adjusted every so many inputs. Every input runs to the end and is fed back.

The paper judges 16 inputs, tunes "for the last window of data" without naming its length, and adjusts every 128.
Here thresholds are fitted to the last `FITTED` inputs, and tuned after each adjustment as well, since a new ramp
begins with a threshold of 0.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from cascadia.exits.adjust import Adjusted, Budget, adjust, evenly
from cascadia.exits.greedy import Tuned, climb
from cascadia.exits.readings import Floats, Ints, Readings, exit_of
from cascadia.exits.timing import Timing

JUDGED, FITTED, ADJUSTED = 16, 128, 128
"""Inputs over which accuracy is watched; that thresholds are fitted to; between two adjustments of the ramps."""


@dataclass(slots=True, eq=False)
class Apparate:
    """The loop on one model. `loss_max` (0-1): accuracy that may be lost. `fitted`: inputs that thresholds are
    fitted to. `adjusts`: false leaves the first ramps where they are.

    It is fed readings of all ramps for convenience and looks at those that were active when they came.
    """

    timing: Timing
    budget: Budget
    loss_max: float
    fitted: int = FITTED
    adjusts: bool = True
    now: Adjusted = field(init=False)
    _seen: deque[tuple[Ints, Floats, int]] = field(init=False)
    _lost: deque[bool] = field(init=False)
    _since: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        active = evenly(self.timing.ramps, self.budget)
        self.now = Adjusted(active, np.zeros(len(active)))
        self._seen = deque(maxlen=self.fitted)
        self._lost = deque(maxlen=JUDGED)

    def feed(self, labels: Ints, doubts: Floats, final: int) -> None:
        """Takes in one input: `labels` and `doubts` (all ramps), and the model's own label."""
        active = list(self.now.active)
        self._seen.append((labels, doubts, final))
        left = exit_of(doubts[active], self.now.thresholds)
        self._lost.append(left is not None and bool(labels[active[left]] != final))
        self._since += 1
        if self.adjusts and self._since >= ADJUSTED:
            self._adjust()
        elif self._since >= ADJUSTED or (
            len(self._lost) == JUDGED and sum(self._lost) > self.loss_max * JUDGED
        ):
            self._retune()

    def _adjust(self) -> None:
        changed = adjust(self._window(self.now.active), self.timing, self.now, self.budget, self._tuned)
        if changed.active != self.now.active:
            # Of a ramp that was not there nothing is known yet.
            self._seen.clear()
        self.now = changed
        self._since = 0
        if self._seen:
            self._retune()

    def _retune(self) -> None:
        self.now = Adjusted(self.now.active, self._tuned(self.now.active).thresholds)
        self._lost.clear()
        self._since = 0 if not self.adjusts else self._since

    def _tuned(self, active: tuple[int, ...]) -> Tuned:
        return climb(self._window(active), self.timing, active, self.loss_max)

    def _window(self, active: tuple[int, ...]) -> Readings:
        labels, doubts, final = (np.array(part) for part in zip(*self._seen, strict=True))
        return Readings(labels, doubts, final).at(active)

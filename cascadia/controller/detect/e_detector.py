"""Evidence that one watched value has changed: ranks, bets and a sum of bets (an e-detector).

The rank of each new value among those before it, ties drawn by lot, gives p in (0, 1]. While values are exchangeable,
whatever their distribution, these p are independent and uniform (Vovk, Gammerman and Shafer 2005, section 8.2). A bet
e(p) = eps p^(eps-1) has mean 1 then; it pays where values turn out higher than all that were. The same on 1 - p bets on
lower ones. R_t = (1 + R_{t-1}) e_t (Shiryaev-Roberts) has mean t, and so has the mean R of several bets. Stopping
when R >= A therefore takes at least A windows in the mean, by optional stopping: E[T] = E[R_T] >= A (Shin, Ramdas and
Rinaldo 2024, e-detectors). No tuning to the traffic, no distribution assumed; what is assumed is that windows do not
depend on one another, and that ranks are taken among all that came before (here: among the last `most`).
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable

BETS = (0.2, 0.5, 0.8)
"""From bold (finds a jump in few windows) to cautious (finds a small shift in many)."""

LEAST_P = 1e-12


class Evidence:
    """Evidence that one value has changed. `draw` gives numbers uniform in [0, 1) for ties; `most` values are
    remembered.
    """

    __slots__ = ("_draw", "_most", "_order", "_since", "_sorted", "_streak", "_sums", "windows")

    def __init__(self, draw: Callable[[], float], most: int) -> None:
        self._draw = draw
        self._most = most
        self._order: deque[float] = deque()
        self._sorted: list[float] = []
        self.windows = 0
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets the evidence, not the values."""
        self._sums = [0.0] * (2 * len(BETS))
        self._streak = [1.0] * (2 * len(BETS))
        self._since = [self.windows] * (2 * len(BETS))

    def feed(self, value: float) -> float:
        """The evidence after `value`: its mean is the number of windows so far, while nothing changes."""
        high = self._p_of_higher(value)
        for i, eps in enumerate(BETS):
            self._bet(i, eps, high)
            self._bet(i + len(BETS), eps, 1.0 - high)
        self._remember(value)
        self.windows += 1
        return sum(self._sums) / len(self._sums)

    @property
    def changed_before(self) -> int:
        """Number of windows since the change began, by the bet that has won most."""
        best = max(range(len(self._sums)), key=self._sums.__getitem__)
        return self.windows - self._since[best]

    def medians(self, ago: int) -> tuple[float, float]:
        """Medians before and since the last `ago` windows; NaN where there were none."""
        values = list(self._order)
        cut = max(0, len(values) - ago)
        return _median(values[:cut]), _median(values[cut:])

    def _p_of_higher(self, value: float) -> float:
        below, upto = bisect_left(self._sorted, value), bisect_right(self._sorted, value)
        # Itself included: with ties by lot the p of exchangeable values are then uniform, not only on average.
        above, equal = len(self._sorted) - upto, upto - below + 1
        return (above + self._draw() * equal) / (len(self._sorted) + 1)

    def _bet(self, i: int, eps: float, p: float) -> None:
        # A lot may fall on 0, and an infinite bet would never lose what it won.
        won = eps * max(p, LEAST_P) ** (eps - 1.0)
        self._sums[i] = (1.0 + self._sums[i]) * won
        # A bet that has lost all it won since then dates no change: it begins anew at this window (as CUSUM does).
        if self._streak[i] <= 1.0:
            self._streak[i], self._since[i] = 1.0, self.windows
        self._streak[i] *= won

    def _remember(self, value: float) -> None:
        if len(self._order) == self._most:
            del self._sorted[bisect_left(self._sorted, self._order.popleft())]
        self._order.append(value)
        insort(self._sorted, value)


def _median(values: list[float]) -> float:
    if not values:
        return float("nan")
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2

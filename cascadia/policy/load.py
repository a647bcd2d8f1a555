"""The load by which a policy is looked up: arrivals over a short window."""

from collections import deque

from cascadia.domain.policy import WINDOW_S


class RateWindow:
    """Moving average of the arrival rate (RAMSIS section 6). Times never fall."""

    __slots__ = ("_arrivals", "_window_s")

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._arrivals: deque[float] = deque()

    def arrival(self, now_s: float) -> None:
        """Counts an arrival."""
        self._arrivals.append(now_s)
        self._forget(now_s)

    def rate_rps(self, now_s: float) -> float:
        """Arrivals of the last window over its length."""
        self._forget(now_s)
        return len(self._arrivals) / self._window_s

    def _forget(self, now_s: float) -> None:
        oldest = now_s - self._window_s
        while self._arrivals and self._arrivals[0] <= oldest:
            self._arrivals.popleft()

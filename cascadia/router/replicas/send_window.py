"""Limit of somebody else's API: at most so many requests in any minute."""

from collections import deque

MINUTE_S = 60.0


class SendWindow:
    """Times of the last `per_minute` requests sent."""

    __slots__ = ("_sent_s", "per_minute")

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._sent_s: deque[float] = deque(maxlen=per_minute)

    def send(self, now_s: float) -> float:
        """Counts a request, and tells when the next may be sent; 0: at once."""
        self._sent_s.append(now_s)
        if len(self._sent_s) < self.per_minute:
            return 0.0
        next_s = self._sent_s[0] + MINUTE_S
        return next_s if next_s > now_s else 0.0

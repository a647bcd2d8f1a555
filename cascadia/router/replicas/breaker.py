"""Protection of a failing replica: a circuit breaker, and a budget of retries.

A client's own mistake (4xx) is the replica's success: it answered. Who gives up on a request (its client left) says
nothing either way, and hands back the probe that it may have been.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Breaker:
    """Opens after `limit` failures in a row, for `first_s`, then twice as long each time up to `longest_s`.

    When that is over one request at a time is let through; its success closes the breaker.
    """

    limit: int
    first_s: float
    longest_s: float
    failures: int = 0
    open_until_s: float = 0.0
    cool_s: float = 0.0
    probing: bool = False

    @property
    def closed(self) -> bool:
        return self.failures < self.limit

    def allows(self, now_s: float) -> bool:
        return self.failures < self.limit or (not self.probing and now_s >= self.open_until_s)

    def begin(self) -> bool:
        """A request is sent; True where it is the probe."""
        if self.failures < self.limit:
            return False
        self.probing = True
        return True

    def succeeded(self) -> None:
        if self.failures:
            self.failures = 0
            self.cool_s = 0.0
        self.probing = False

    def failed(self, now_s: float, probe: bool) -> None:
        opened = self.failures >= self.limit
        self.failures += 1
        if probe:
            self.probing = False
        # Requests that were under way when it opened fail too, and must not make it wait longer.
        if self.failures >= self.limit and (probe or not opened):
            self.cool_s = min(self.longest_s, 2 * self.cool_s if self.cool_s else self.first_s)
            self.open_until_s = now_s + self.cool_s

    def abandoned(self, probe: bool) -> None:
        if probe:
            self.probing = False


@dataclass(slots=True)
class RetryBudget:
    """Each request earns `ratio` of a retry; at most `most` are saved, and as many are there at the start."""

    ratio: float
    most: float = 10.0
    saved: float = 10.0

    def earn(self) -> None:
        # Every request comes through here: `min` would take longer than all else.
        saved = self.saved + self.ratio
        self.saved = saved if saved < self.most else self.most

    def take(self) -> bool:
        if self.saved < 1.0:
            return False
        self.saved -= 1.0
        return True

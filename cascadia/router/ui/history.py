"""History of the counters: so that the page can speak of the last minute, and draw a line.

Everything counted is kept as it stands at a tick, for a quarter of an hour; a window is a difference of two.
"""

import asyncio
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import add

from cascadia.router.telemetry.counters import Counts, Spread, Spreads
from cascadia.router.telemetry.metrics import Metrics

TICK_S = 5.0
KEPT = 181
"""A quarter of an hour of ticks, and the one before."""


@dataclass(frozen=True, slots=True)
class Tick:
    """All figures at `at_s` of the loop's time, by metric and labels. A histogram is its buckets, then its sum."""

    at_s: float
    counts: dict[tuple[str, ...], float] = field(default_factory=dict)
    spreads: dict[tuple[str, ...], "array[float]"] = field(default_factory=dict)
    running: int = 0
    """Requests under way then."""
    exit_settings: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """By stage, as `Metrics` has them."""


def tick_of(metrics: Metrics, at_s: float) -> Tick:
    tick = Tick(at_s, running=metrics.running, exit_settings=dict(metrics.exit_settings))
    for counts in _counts(metrics):
        for labels, count in counts.children.items():
            tick.counts[(counts.name, *labels)] = count.value
    for spreads in _spreads(metrics):
        for labels, spread in spreads.children.items():
            tick.spreads[(spreads.name, *labels)] = array("d", (*spread.counts, spread.total))
    return tick


@dataclass(frozen=True, slots=True)
class Window:
    """Window between `first` and `last`. Metrics are named as in /metrics, less `cascadia_` and `_total`."""

    first: Tick
    last: Tick

    @property
    def seconds(self) -> float:
        return self.last.at_s - self.first.at_s

    def count(self, name: str, *labels: str) -> float:
        key = (f"cascadia_{name}", *labels)
        return self.last.counts.get(key, 0.0) - self.first.counts.get(key, 0.0)

    def by(self, name: str, *labels: str) -> dict[str, float]:
        """Changes of all children whose labels begin so, by the next label; those that did not move are left
        out.
        """
        start = (f"cascadia_{name}", *labels)
        found: dict[str, float] = {}
        for key in self.last.counts:
            if key[: len(start)] == start and len(key) > len(start):
                moved = self.last.counts[key] - self.first.counts.get(key, 0.0)
                if moved:
                    found[key[len(start)]] = found.get(key[len(start)], 0.0) + moved
        return found

    def spread(self, spreads: Spreads, *labels: str) -> Spread:
        """A histogram's own part of the window."""
        key = (spreads.name, *labels)
        found = Spread(spreads.upper)
        after = self.last.spreads.get(key)
        if after is None:
            return found
        moved = [now - then for now, then in zip(after, self._before(key, after), strict=True)]
        found.counts = [round(count) for count in moved[:-1]]
        found.total = moved[-1]
        return found

    def whole(self, spreads: Spreads) -> Spread:
        """All children of a histogram together."""
        keys = [key[1:] for key in self.last.spreads if key[0] == spreads.name]
        return summed([self.spread(spreads, *labels) for labels in keys], spreads.upper)

    @property
    def moved(self) -> Tick:
        """The window as one tick, of what began at 0."""
        counts = {key: value - self.first.counts.get(key, 0.0) for key, value in self.last.counts.items()}
        spreads = {
            key: array("d", (now - then for now, then in zip(after, self._before(key, after), strict=True)))
            for key, after in self.last.spreads.items()
        }
        return Tick(self.seconds, counts, spreads)

    def _before(self, key: tuple[str, ...], after: "array[float]") -> "array[float]":
        return self.first.spreads.get(key) or array("d", bytes(8 * len(after)))


def added(ticks: Sequence[Tick]) -> Window:
    """Sum of what several processes saw in the same time."""
    whole = Tick(max(tick.at_s for tick in ticks))
    for tick in ticks:
        for key, value in tick.counts.items():
            whole.counts[key] = whole.counts.get(key, 0.0) + value
        for key, values in tick.spreads.items():
            known = whole.spreads.get(key)
            whole.spreads[key] = values if known is None else array("d", map(add, known, values))
    return Window(Tick(0.0), whole)


class History:
    """Ticks of `metrics`, from `start` to `stop`."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        self.metrics = metrics
        self.clock = clock
        self.began = Tick(0.0)
        self.ticks: deque[Tick] = deque([self.began], KEPT)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """All counters are 0 now."""
        self.began = Tick(self.clock())
        self.ticks = deque([self.began], KEPT)
        self._wait()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def tick(self) -> None:
        self.ticks.append(tick_of(self.metrics, self.clock()))

    def window(self, seconds: float | None) -> Window:
        """The last `seconds` or a little more; None: since the start."""
        now = tick_of(self.metrics, self.clock())
        if seconds is None:
            return Window(self.began, now)
        since_s = now.at_s - seconds
        older = [tick for tick in self.ticks if tick.at_s <= since_s]
        return Window(older[-1] if older else self.ticks[0], now)

    def between(self) -> list[Window]:
        """One for each tick that is kept."""
        ticks = list(self.ticks)
        return [Window(before, after) for before, after in pairwise(ticks)]

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._again)

    def _again(self) -> None:
        self.tick()
        self._wait()


def quantile(spread: Spread, q: float) -> float | None:
    """Taken to lie evenly within its bucket, as Prometheus does; the last bound where it is above them all."""
    wanted, below = q * spread.count, 0
    if not spread.count:
        return None
    lower = 0.0
    for upper, count in zip(spread.upper, spread.counts, strict=False):
        if count and below + count >= wanted:
            return lower + (upper - lower) * (wanted - below) / count
        below += count
        lower = upper
    return lower


def summed(parts: Sequence[Spread], upper: Sequence[float]) -> Spread:
    whole = Spread(upper)
    for part in parts:
        whole.counts = [a + b for a, b in zip(whole.counts, part.counts, strict=True)]
        whole.total += part.total
    return whole


def _counts(metrics: Metrics) -> list[Counts]:
    return [
        *(metrics.requests, metrics.stage_requests, metrics.accepted, metrics.escalated, metrics.stopped),
        *(metrics.tokens, metrics.cascade_tokens, metrics.answers, metrics.upstream_errors),
        *(metrics.judge_failures, metrics.shadows, metrics.gear_requests, metrics.exits),
        *(metrics.cascade_usd, metrics.alone),
    ]


def _spreads(metrics: Metrics) -> list[Spreads]:
    return [
        *(metrics.request_seconds, metrics.request_ttft, metrics.score, metrics.stage_seconds),
        *(metrics.queue_seconds, metrics.ttft, metrics.tpot, metrics.judgements),
    ]

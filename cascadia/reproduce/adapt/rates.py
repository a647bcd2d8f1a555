"""Half days whose rate alone moves, each in its own way: what a rule that was made on sines and squares must stand."""

from collections.abc import Callable, Iterator

import numpy as np

from cascadia_traces.generate.rates import Constant, Rate, Steps

HALF_DAY_S = 43_200.0
HOUR_S, MINUTE_S = 3600.0, 60.0


def levels() -> Steps:
    """Levels drawn around 12 requests/s, each for twenty minutes in the mean."""
    rng = np.random.default_rng(7)

    def drawn() -> Iterator[tuple[float, float]]:
        for _ in range(round(2 * HALF_DAY_S / 1200.0)):
            stays_s = max(MINUTE_S, rng.exponential(1200.0))
            yield stays_s, float(np.clip(12.0 * np.exp(rng.normal(-0.125, 0.5)), 2.0, 28.0))

    return Steps(tuple(drawn()))


def bursts(base_rps: float, shortest_s: float, longest_s: float, seed: int) -> Steps:
    """Bursts of two to three and a half times the rate, four to ten minutes apart."""
    rng = np.random.default_rng(seed)

    def drawn() -> Iterator[tuple[float, float]]:
        for _ in range(round(HALF_DAY_S / 240.0)):
            quiet_s, burst_s = rng.uniform(240.0, 600.0), rng.uniform(shortest_s, longest_s)
            yield quiet_s, base_rps
            yield burst_s, base_rps * rng.uniform(2.0, 3.5)

    return Steps(tuple(drawn()))


def drifting(at_h: float) -> float:
    """A sine of 1.3 h around a level that wanders itself."""
    level_rps = 11.0 * (1.0 + 0.3 * np.sin(2.0 * np.pi * at_h / 11.0))
    return float(level_rps * (1.0 - 0.6 * np.cos(2.0 * np.pi * at_h / 1.3)))


def weekend(at_h: float) -> float:
    """Two small humps, then Monday's morning within an hour."""
    if at_h > 11.0:
        return 9.0
    if at_h > 8.0:
        return min(20.0, 5.0 + 15.0 * (at_h - 8.0))
    return float(3.0 + 2.5 * np.exp(-((at_h - 3.0) ** 2) / 1.5) + 4.0 * np.exp(-((at_h - 6.0) ** 2) / 2.0))


def by_minutes(rate_rps: Callable[[float], float]) -> Steps:
    """`rate_rps` by the hour of the half day, a minute at a time."""
    return Steps(tuple((MINUTE_S, rate_rps(at_s / HOUR_S)) for at_s in np.arange(0.0, HALF_DAY_S, MINUTE_S)))


RATES: dict[str, Callable[[], Rate]] = {
    "flat": lambda: Constant(12.0),
    "levels": levels,
    "bursts": lambda: bursts(8.0, 40.0, 120.0, 5),
    "long-bursts": lambda: bursts(7.0, 120.0, 400.0, 6),
    "drifting": lambda: by_minutes(drifting),
    "weekend": lambda: by_minutes(weekend),
}

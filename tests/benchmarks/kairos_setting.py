"""Kairos' setting as far as it is public: four instance types at their prices (Table 4), targets (Table 3), sizes.

The paper prints no latency table. Latencies here are linear in the size and obey its text: only the base type serves
all sizes (to 1,000) in time, and large queries gain most by it. An instance serves one query at a time.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cascadia.planner.pool.kairos import Types

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

USD = np.array([0.526, 0.432, 0.149, 0.1664])
BUDGET_USD = 2.5
LARGEST = 1000
SIZES = 20
XI = 0.98
"""Of the target: what is predicted to be later counts as late."""


class Model(NamedTuple):
    """Target, and per type (base first) seconds of an empty query and of the largest, as parts of the target."""

    target_s: float
    empty: tuple[float, ...]
    largest: tuple[float, ...]


MODELS = {
    "NCF": Model(0.005, (0.10, 0.03, 0.05, 0.04), (0.45, 1.6, 3.6, 3.0)),
    "RM2": Model(0.350, (0.20, 0.02, 0.03, 0.03), (0.70, 1.3, 2.2, 3.4)),
    "WND": Model(0.025, (0.12, 0.03, 0.06, 0.05), (0.50, 1.5, 4.2, 3.2)),
    "MT-WND": Model(0.025, (0.15, 0.04, 0.07, 0.06), (0.60, 1.8, 4.0, 3.6)),
    "DIEN": Model(0.035, (0.14, 0.05, 0.06, 0.07), (0.55, 2.0, 3.9, 3.5)),
}


def sizes_drawn(count: int, seed: int, *, gaussian: bool = False) -> Floats:
    """Sizes of queries: Meta-like (log-normal, a long tail), or Gaussian."""
    rng = np.random.default_rng(seed)
    drawn = rng.normal(400.0, 150.0, count) if gaussian else rng.lognormal(4.9, 1.0, count)
    return np.clip(np.rint(drawn), 1, LARGEST)


def seconds_of(model: Model, sizes: Floats) -> Floats:
    """Seconds (types, n)."""
    empty, largest = np.array(model.empty)[:, None], np.array(model.largest)[:, None]
    found: Floats = model.target_s * (empty + (largest - empty) * sizes[None, :] / LARGEST)
    return found


def types_of(model: Model, sizes: Floats) -> Types:
    """Sizes in classes of as many queries each."""
    classes = np.array_split(np.sort(sizes), SIZES)
    mean = np.array([each.mean() for each in classes])
    last = np.array([each[-1] for each in classes])
    shares = np.array([len(each) for each in classes]) / len(sizes)
    in_time = seconds_of(model, last) <= XI * model.target_s
    in_time[0] = True
    return Types(seconds_of(model, mean), shares, in_time)


def served_rps(model: Model, sizes: Floats, gaps: Floats, config: Ints) -> float:
    """The highest rate at which 99 % of queries are in time, each given to the instance that takes least of the base
    type's time among those that finish it in time (Eq. 2, 3 with one query)."""
    kinds = np.repeat(np.arange(len(config)), config)
    seconds = seconds_of(model, sizes)
    dear = seconds[0].max() / seconds.max(axis=1)
    if not config[0]:
        return 0.0
    high = float(config @ (1.0 / seconds.mean(axis=1))) * 2.0
    low = 0.0
    while high - low > 0.005 * high:
        middle = (low + high) / 2
        late = _late(np.cumsum(gaps) / middle, seconds, kinds, dear, model.target_s, XI)
        low, high = (middle, high) if late <= 0.01 * len(sizes) else (low, middle)
    return low


@njit(cache=True)  # type: ignore[untyped-decorator]
def _late(
    came_s: Floats, seconds: Floats, kinds: Ints, dear: Floats, target_s: float, xi: float
) -> int:  # pragma: no cover
    free = np.zeros(len(kinds))
    late = 0
    for i in range(len(came_s)):
        best, least, soonest, first = -1, np.inf, 0, np.inf
        for j in range(len(kinds)):
            took = max(free[j] - came_s[i], 0.0) + seconds[kinds[j], i]
            if took < first:
                soonest, first = j, took
            if took <= xi * target_s and dear[kinds[j]] * took < least:
                best, least = j, dear[kinds[j]] * took
        at = best if best >= 0 else soonest
        free[at] = max(free[at], came_s[i]) + seconds[kinds[at], i]
        late += free[at] - came_s[i] > target_s
    return late

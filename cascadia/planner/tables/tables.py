"""Latency of one replica by shape and load level, simulated (DESIGN section 5.2; Cascadia section 3.2).

A replica at level k takes every k-th request of its stage: exactly what round robin gives each of k equal
replicas, burstiness included. `latency_s[shape, level]` is the stage-latency quantile there, infinite where the
replica cannot keep up.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.tables.capacity import Sustained, held_at_once
from cascadia.planner.tables.loads import Load
from cascadia.planner.tables.shapes import Shape
from cascadia.planner.tables.store import digest_of, load_table, save_table
from cascadia_sim.engine.replica import Apart
from cascadia_sim.engine.requests import request_arrays
from cascadia_sim.engine.results import quantile as at_quantile
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SAMPLE_REQUESTS = 900
"""Requests behind one table entry, where the stage has as many: of the k replicas only some are simulated."""

MOST_STREAMS = 64
FEWEST_REQUESTS = 4
"""No more replicas than this are simulated for an entry, and none that gets fewer requests than this."""

PIPELINE_SAMPLE_REQUESTS = 300
"""As `SAMPLE_REQUESTS`, for pipelines, which take several times as long to simulate."""

PIPELINE_WINDOWS = 2
PIPELINE_WINDOW_REQUESTS, PIPELINE_TURNOVERS = 300, 4
"""Of a pipeline's long stream only so many windows are simulated, spread evenly, each as long as what it holds at once
turns over so many times; the first of these warms up."""

ALIKE = 1.03
"""Quantiles whose ratio is below this need no level between them simulated."""

PIPELINE_ALIKE = 1.12
"""As `ALIKE`, for pipelines."""

STABLE_SHARE = 0.95
"""A level counts as stable up to this share of what the replica sustains."""


@dataclass(frozen=True, slots=True, eq=False)
class StageTable:
    """`latency_s` (shapes, levels); `levels` ascending: at level k a replica takes 1/k of the requests.

    `saturated` (shapes) is the least k at which a replica keeps up, from its throughput with all work at hand.
    """

    shapes: tuple[Shape, ...]
    levels: Ints
    latency_s: Floats
    saturated: Floats
    requests: int

    def best_level(self, bound_s: float) -> Ints:
        """Index, per shape, of the smallest level with latency within `bound_s`; -1 where there is none."""
        within = self.latency_s <= bound_s
        return np.where(within.any(axis=1), within.argmax(axis=1), -1)

    def shares(self, bound_s: float) -> Floats:
        """Largest share, per shape, of the stage's requests that keeps within `bound_s` (0: none)."""
        level = self.best_level(bound_s)
        return np.where(level >= 0, 1.0 / self.levels[level], 0.0)

    @property
    def bounds_s(self) -> Floats:
        """All finite latencies, ascending: the only values that a stage's bound need take."""
        return np.unique(self.latency_s[np.isfinite(self.latency_s)])


def levels_for(most: int) -> Ints:
    """1, 2, ... 8, then about six per doubling, up to `most`."""
    grid = np.unique(np.rint(np.concatenate([np.arange(1, 9), 8 * 2 ** (np.arange(1, 61) / 6)])))
    return grid[grid <= max(most, 1)].astype(np.int64)


@dataclass
class TableCache:
    """Tables by what decides them, so that a routed set that comes again costs nothing.

    They are kept by pool: what a pool's shapes do is the same whichever others there are. A table of several pools puts
    theirs together, and so a search of some of the pools has the tables of a search of all. Levels count as stable up
    to `stable_share` of what a replica sustains while it is there.
    """

    pool: ThreadPoolExecutor
    stable_share: float = STABLE_SHARE
    entries: dict[tuple[object, ...], StageTable] = field(default_factory=dict)
    sustained: Sustained = field(default_factory=Sustained)

    def table(
        self, name: str, shapes: Sequence[Shape], load: Load, quantile: float, budget: Callable[[Shape], int]
    ) -> StageTable:
        """The table of stage `name` under `load`; `budget(shape)` is the most that a level may be."""
        key = (name, *_named(shapes), load.digest, quantile)
        if key not in self.entries:
            by_pool = {p: [s for s in shapes if s.pool == p] for p in dict.fromkeys(s.pool for s in shapes)}
            parts = [self._of_pool(name, mine, load, quantile, budget) for mine in by_pool.values()]
            self.entries[key] = parts[0] if len(parts) == 1 else _together(tuple(shapes), parts, len(load))
        return self.entries[key]

    def _of_pool(
        self, name: str, shapes: Sequence[Shape], load: Load, quantile: float, budget: Callable[[Shape], int]
    ) -> StageTable:
        limits = [budget(shape) for shape in shapes]
        key = (name, *_named(shapes), load.digest, quantile, *limits)
        if key not in self.entries:
            self.entries[key] = self._build(tuple(shapes), load, quantile, limits)
        return self.entries[key]

    def _build(
        self, shapes: tuple[Shape, ...], load: Load, quantile: float, limits: Sequence[int]
    ) -> StageTable:
        levels = levels_for(max(limits, default=1))
        stable = [self.stable_share * s.there for s in shapes]
        digest = digest_of([s.timing for s in shapes], load.digest, quantile, levels, limits, stable)
        if (saved := load_table(digest)) is not None:
            return StageTable(shapes, levels, *saved, len(load))
        # The largest first, pipelines among them: what takes the longest is not left for the end.
        last_first = self.pool.map(
            lambda s, most, share: _shape_row(
                s.timing,
                load,
                quantile,
                levels,
                most,
                saturation_level(s.timing, load, share, self.sustained),
            ),
            shapes[::-1],
            limits[::-1],
            stable[::-1],
        )
        rows = list(last_first)[::-1]
        latency = np.array([row for row, _ in rows]).reshape(len(shapes), len(levels))
        saturated = np.array([least for _, least in rows])
        save_table(digest, latency, saturated)
        return StageTable(shapes, levels, latency, saturated, len(load))


def _named(shapes: Sequence[Shape]) -> tuple[tuple[str, int, int], ...]:
    return tuple((s.pool, s.tp, s.pp) for s in shapes)


def _together(shapes: tuple[Shape, ...], parts: Sequence[StageTable], requests: int) -> StageTable:
    """One table of all rows, in the order of `shapes`. Beyond a part's last level stands what it does there."""
    levels = max((part.levels for part in parts), key=len)  # each begins as the longest does
    row_of = {
        id(shape): (np.pad(row, (0, len(levels) - len(row)), mode="edge"), least)
        for part in parts
        for shape, row, least in zip(part.shapes, part.latency_s, part.saturated.tolist(), strict=True)
    }
    latency = np.array([row_of[id(shape)][0] for shape in shapes])
    saturated = np.array([row_of[id(shape)][1] for shape in shapes])
    return StageTable(shapes, levels, latency, saturated, requests)


def _shape_row(
    timing: ReplicaTiming, load: Load, quantile: float, levels: Ints, most: int, least: float
) -> tuple[Floats, float]:
    """Latency quantile at every level, of which `least` is the first (fractional) one that is stable, and that.

    Levels beyond `most`, and those that leave a replica hardly a request, take the value before them. Between two
    levels whose quantiles are alike none is simulated.
    """
    if len(load) == 0:
        return np.zeros(len(levels)), 0.0
    row = np.full(len(levels), np.nan)
    first = int(np.searchsorted(levels, least))
    lightest = max(min(most, len(load) // FEWEST_REQUESTS), int(np.ceil(least)), 1)
    last = min(int(np.searchsorted(levels, lightest)), len(levels) - 1)
    if first >= len(levels):
        return np.full(len(levels), np.inf), least
    last = max(first, last)
    alike = ALIKE if timing.lanes == 1 else PIPELINE_ALIKE
    given = request_arrays(load.arrival_ps, load.input_tokens, load.output_tokens, load.cached_tokens)
    apart, held = Apart(timing, given), held_at_once(timing, load)
    open_ = [(first, last)]
    while open_:
        low, high = open_.pop()
        for at in (low, high):
            if np.isnan(row[at]):
                row[at] = _quantile_s(apart, timing, len(load), held, int(levels[at]), quantile)
        if high - low > 1 and row[low] > row[high] * alike:
            middle = (low + high) // 2
            open_ += [(low, middle), (middle, high)]
    known = np.flatnonzero(np.isfinite(row))
    # In logarithms of both: levels are apart by ratios, and latency is steep near saturation.
    filled = np.exp(np.interp(np.log(levels), np.log(levels[known]), np.log(np.maximum(row[known], 1e-9))))
    # Chance may make a lighter load slower; what a heavier one keeps, it keeps too.
    filled = np.minimum.accumulate(np.where(levels >= least, filled, np.inf))
    return filled, least


def _quantile_s(
    apart: Apart, timing: ReplicaTiming, requests: int, held: int, k: int, quantile: float
) -> float:
    """The latency quantile over enough of the k thinned streams, spread evenly, to make a sample."""
    per_stream = max(requests / k, 1.0)
    streams = int(min(k, np.ceil(_sample_requests(timing) / per_stream), MOST_STREAMS))
    mine: list[Ints] = []
    warm_up: list[int] = []
    for offset in np.unique(np.linspace(0, k - 1, streams).astype(int)).tolist():
        stream = np.arange(offset, requests, k)
        for window, warms_up in _windows(timing, len(stream), held):
            mine.append(stream[window.start : window.stop])
            warm_up.append(warms_up)
    sizes = [len(part) for part in mine]
    latency_ps = apart.latencies_ps(np.concatenate(mine), np.cumsum(sizes))
    if any(warm_up):
        counts = [np.arange(size) >= until for size, until in zip(sizes, warm_up, strict=True)]
        latency_ps = latency_ps[np.concatenate(counts)]
    # A request's own latency: interpolated between two, it could be one that nobody had.
    return at_quantile(latency_ps, quantile) / PS_PER_S


def _windows(timing: ReplicaTiming, requests: int, held: int) -> list[tuple[range, int]]:
    """The parts of a stream that are simulated, each with how many of its requests do not count."""
    size = max(PIPELINE_WINDOW_REQUESTS, PIPELINE_TURNOVERS * held)
    if timing.lanes == 1 or requests <= PIPELINE_WINDOWS * size:
        return [(range(requests), 0)] if requests else []
    starts = np.linspace(0, requests - size, PIPELINE_WINDOWS).astype(int)
    return [
        (range(start, start + size), size // PIPELINE_TURNOVERS if start else 0) for start in starts.tolist()
    ]


def _sample_requests(timing: ReplicaTiming) -> int:
    return SAMPLE_REQUESTS if timing.lanes == 1 else PIPELINE_SAMPLE_REQUESTS


def saturation_level(
    timing: ReplicaTiming, load: Load, stable_share: float = STABLE_SHARE, known: Sustained | None = None
) -> float:
    """Number of such replicas that the load needs to be stable: its rate over `stable_share` of what one
    sustains.
    """
    if not len(load) or load.period_ps <= 0:
        return 0.0
    return load.rate_rps / (stable_share * (known or Sustained()).rps(timing, load))

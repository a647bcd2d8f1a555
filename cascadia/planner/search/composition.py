"""End-to-end latency of many combinations of options at once, from stage latencies simulated one by one.

For one routing and a window of the workload, each stage is simulated under each of its options; a request's
end-to-end latency under a combination is the sum of its latencies at the stages it visits and of its verdicts.
What is left out is that a stage's arrivals follow the stage before; the best combinations are therefore
simulated as a whole afterwards (`refinement/refine.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.objective import Metric
from cascadia.domain.problem import Problem
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.options import Mix, Option
from cascadia.planner.deployment.simulation import (
    Times,
    apis_of,
    quantile_s,
    times_by_request,
    times_elsewhere,
    verdict_delays,
)
from cascadia.planner.routing.routings import Decisions, Routings
from cascadia.planner.search.context import decisions
from cascadia.planner.tables.loads import judge_load, stage_load, verdicts_each
from cascadia_sim.engine.jitted import jitted
from cascadia_sim.iteration.timing import PS_PER_S

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(eq=False)
class Composer:
    """Stage latencies on a window of the workload, kept per routed set and mix."""

    window: Problem
    _rows: dict[object, Times]

    @staticmethod
    def on(window: Problem) -> "Composer":
        return Composer(window, {})

    def rows(
        self,
        routings: Routings,
        routing: int,
        stages: Sequence[int],
        choices: Sequence[Sequence[Option]],
        metric: Metric = "e2e",
    ) -> tuple[list[Floats], Floats]:
        """Rows per demand: what each adds (options, n) to each request's metric (0 where it does not pass), and fixed
        delays (n).

        Whoever streams at a stage has the TTFT of all before and that stage's own, and that stage's TPOT.
        """
        decided = decisions(self.window, routings, routing)
        waits = decided.reached * verdicts_each(self.window, decided.judged)
        rows = [
            np.stack(
                [
                    self._adds(stage, self._row(stage, option.replicas, decided, waits), waits, metric)
                    for option in options
                ]
            )
            for stage, options in zip(stages, choices, strict=True)
        ]
        if metric == "tpot":
            return rows, self._elsewhere(decided, waits, metric)
        fixed = np.where(decided.foresees.any(axis=0), self.window.foresight_s, 0.0)
        fixed += self._elsewhere(decided, waits, metric)
        delays = verdict_delays(self.window)
        if delays is not None:
            fixed += (delays * waits).sum(axis=0) / PS_PER_S
        return rows, fixed

    def _elsewhere(self, decided: Decisions, waits: Ints, metric: Metric) -> Floats:
        """Seconds that stages elsewhere add (n), whatever is deployed here."""
        found = np.zeros(decided.enters.shape[1])
        for s, api in enumerate(apis_of(self.window)):
            if api is not None and (mask := decided.reached[s]).any():
                times = times_elsewhere(api, stage_load(self.window, s, mask), len(mask))
                found += self._adds(s, times, waits, metric)
        return found

    def _adds(self, stage: int, times: Times, waits: Ints, metric: Metric) -> Floats:
        """Seconds that a stage adds (n) to each request's metric; there it `waits` (S, n) for so many verdicts."""
        if metric == "e2e":
            return times.whole_s
        if stage == JUDGE:
            return times.whole_s if metric == "ttft" else np.zeros(len(times.whole_s))
        # Who does not come there has no times to be taken for a stream's.
        streams = waits[stage] == 0
        if metric == "ttft":
            return np.where(streams, times.first_s, times.whole_s)
        tokens = self.window.workload.output_tokens[stage]
        spread = (times.whole_s - times.first_s) / np.maximum(tokens - 1, 1)
        return np.where(streams & (tokens > 1), spread, 0.0)

    def _row(self, stage: int, mix: Mix, decided: Decisions, waits: Ints) -> Times:
        routed = waits if stage == JUDGE else decided.reached[stage]
        key = (
            stage,
            routed.tobytes(),
            tuple((r.shape.pool, r.shape.tp, r.shape.pp, r.count, r.level) for r in mix),
        )
        if key not in self._rows:
            self._rows[key] = (
                self._judge_row(mix, decided)
                if stage == JUDGE
                else self._stage_row(stage, mix, decided.reached[stage])
            )
        return self._rows[key]

    def _stage_row(self, stage: int, mix: Mix, mask: Bools) -> Times:
        return times_by_request(stage_load(self.window, stage, mask), mix, len(mask))

    def _judge_row(self, mix: Mix, decided: Decisions) -> Times:
        load = judge_load(self.window, decided.reached, decided.judged)
        return times_by_request(load, mix, len(self.window.workload))


def best_combinations(
    rows: Sequence[Floats],
    fixed: Floats,
    choices: Sequence[Sequence[Option]],
    pools: Mapping[str, int],
    quantile: float,
) -> tuple[Ints, Floats]:
    """Composed quantile of every combination within the GPUs of `pools`: (choices (m, D), latency_s (m)).

    Combinations over budget are infinite.
    """
    depth, widest = len(rows), max(len(c) for c in choices)
    n = rows[0].shape[1]
    stacked = np.zeros((depth, widest, n))
    gpus = np.zeros((depth, widest, len(pools)), np.int64)
    for d, (row, options) in enumerate(zip(rows, choices, strict=True)):
        stacked[d, : len(options)] = row
        gpus[d, : len(options)] = [_gpus_by_pool(option, pools) for option in options]
    counts = np.array([len(c) for c in choices])
    rank = min(n - 1, int(np.ceil(quantile * n)) - 1)
    limits = np.array(list(pools.values()), np.int64)
    latency = _all_combinations(stacked, fixed, gpus, counts, limits, rank)
    grid = np.stack(np.unravel_index(np.arange(len(latency)), tuple(counts.tolist())), axis=1)
    return grid, latency


def promised(rows: Sequence[Floats], fixed: Floats, grid: Ints, quantile: float) -> Floats:
    """Composed quantile (m) of each combination in `grid` (m, D)."""
    found = np.empty(len(grid))
    for at, chosen in enumerate(grid.tolist()):
        whole = fixed + sum((row[option] for row, option in zip(rows, chosen, strict=True)), 0.0)
        found[at] = quantile_s(whole, quantile)
    return found


def descend(
    rows: Sequence[Floats],
    fixed: Floats,
    choices: Sequence[Sequence[Option]],
    pools: Mapping[str, int],
    quantile: float,
    start: Sequence[int],
    sweeps: int,
) -> tuple[Ints, Floats]:
    """Descends from one combination to better ones: the best options of each pair of demands in turn, the
    others held.

    Returns those passed on the way, as `best_combinations` does.
    """
    at = list(start)
    passed: dict[tuple[int, ...], float] = {}
    for _ in range(sweeps):
        before = tuple(at)
        for pair in combinations(range(len(rows)), min(2, len(rows))):
            others = [d for d in range(len(rows)) if d not in pair]
            held = fixed + sum((rows[d][at[d]] for d in others), np.zeros(len(fixed)))
            taken = np.sum([_gpus_by_pool(choices[d][at[d]], pools) for d in others], axis=0)
            left = {
                p: int(g - t)
                for (p, g), t in zip(pools.items(), np.broadcast_to(taken, len(pools)), strict=True)
            }
            grid, latency = best_combinations(
                [rows[d] for d in pair], held, [choices[d] for d in pair], left, quantile
            )
            best = int(latency.argmin())
            if np.isfinite(latency[best]):
                for d, option in zip(pair, grid[best].tolist(), strict=True):
                    at[d] = option
                passed[tuple(at)] = float(latency[best])
        if tuple(at) == before:
            break
    return np.array(list(passed)).reshape(len(passed), len(rows)), np.array(list(passed.values()))


def _gpus_by_pool(option: Option, pools: Mapping[str, int]) -> list[int]:
    return [sum(r.shape.gpus * r.count for r in option.replicas if r.shape.pool == pool) for pool in pools]


@jitted(nogil=True)
def _all_combinations(  # type: ignore[no-untyped-def]
    rows, fixed, gpus, counts, limits, rank
):
    """Mixed-radix walk over all combinations, with partial sums kept per digit."""
    depth, _, n = rows.shape
    total = 1
    for d in range(depth):
        total *= counts[d]
    out = np.empty(total)
    partial = np.empty((depth + 1, n))
    # Element by element: assigned whole, arrays' shapes are checked, in words that take three seconds to compile.
    for r in range(n):
        partial[0, r] = fixed[r]
    used = np.zeros((depth + 1, limits.shape[0]), np.int64)
    digit = np.zeros(depth, np.int64)
    start = 0  # the first digit whose partial sum is stale
    scratch = np.empty(n)
    for index in range(total):
        over = False
        for d in range(start, depth):
            for p in range(limits.shape[0]):
                used[d + 1, p] = used[d, p] + gpus[d, digit[d], p]
            for r in range(n):
                partial[d + 1, r] = partial[d, r] + rows[d, digit[d], r]
        for p in range(limits.shape[0]):
            if used[depth, p] > limits[p]:
                over = True
        out[index] = np.inf
        if not over:
            # The selection below sorts in place, and the sums are needed for the next combination.
            for r in range(n):
                scratch[r] = partial[depth, r]
            out[index] = _select(scratch, rank)
        start = depth
        for d in range(depth - 1, -1, -1):
            start = d
            digit[d] += 1
            if digit[d] < counts[d]:
                break
            digit[d] = 0
    return out


@jitted(nogil=True)
def _select(values, rank):  # type: ignore[no-untyped-def]
    """The rank-th smallest of `values` (Hoare's quickselect, in place)."""
    low, high = 0, len(values) - 1
    while low < high:
        # Not `np.partition`, which copies at each of thousands of combinations: `values` is scratch anyway.
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            break
    return values[rank]

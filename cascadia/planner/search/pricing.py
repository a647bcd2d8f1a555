"""The routing solver's view: about how low could the largest stage quantile be, for every routing at once?

Stage tables are made for a few routed sets only (`reference_tables.py`). For any other routing, a stage's need is its
work relative to the nearest table's, and the least bound L is found on a grid by the covering problem of each stage
(`allocation/knapsack.py`) on a single pool, or by its linear relaxation over several pools. Prices order the routings;
the routing that wins a round is then priced exactly, by tables of its own and the integer program.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pulp
from numpy.typing import NDArray

from cascadia.planner.allocation.demand import JUDGE, Demand
from cascadia.planner.allocation.highs import solve
from cascadia.planner.allocation.knapsack import EPS
from cascadia.planner.search.reference_tables import References, judge_tokens, stage_tokens
from cascadia.planner.tables.tables import StageTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

GRID = 32
BEYOND = (2.0, 4.0, 8.0)
"""Further bounds, as multiples of the largest one that tables for all requests know: near saturation, tables for fewer
requests go on at levels where those have given up, and so do slow judges."""
JUDGE_PART = 0.08
"""The judge is priced at this part of the bound, if it can be as fast; refinement finds its real place."""


class Group(NamedTuple):
    """Routings, by position, that send a stage multiples `ratio` of the work that `table` is of."""

    table: StageTable
    gated: bool
    chosen: Ints
    ratio: Floats


class Prices:
    """Prices of some routings (K of the frontier's, by index)."""

    def __init__(self, references: References, routings: Ints):
        search = references.search
        self._known = references
        self._references = references.by_stage
        self._cluster = search.problem.cluster
        self._judged = search.routings.judged(routings)
        self._work = {s: stage_tokens(search, s, routings) for s in self._references if s != JUDGE}
        self._verdict_s = search.verdict_s
        self._fastest_judge_s = 0.0
        if JUDGE in self._references:
            self._work[JUDGE] = judge_tokens(search, routings)
            known = (float(r.demand.table.bounds_s.min(initial=np.inf)) for r in self._references[JUDGE])
            # All verdicts may be more than any replica keeps up with: then those of fewer tell, if any were asked.
            self._fastest_judge_s = next(filter(np.isfinite, known), 0.0)
        self._nearest = {s: references.nearest(s, work) for s, work in self._work.items()}
        self._grid = self._bounds()
        self._count = len(routings)

    def least_bound_s(self) -> Floats:
        """(K): infinite where no grid value can be kept."""
        return self._by_covering() if len(self._cluster.pools) == 1 else self._by_relaxation()

    def _bounds(self) -> Floats:
        """The grid, the same in every round, so that what is known of a table stays known."""
        known = [rs[0].demand.table.bounds_s for s, rs in self._references.items() if s != JUDGE]
        finite = np.concatenate([bounds for bounds in known if len(bounds)] or [np.ones(1)])
        low, high = (
            max(float(finite.min()), 1e-6),
            (float(finite.max()) + self._verdict_s) / (1 - 2 * JUDGE_PART),
        )
        grid = np.geomspace(low, max(high, low * 1.0001), GRID)
        return np.concatenate([grid, grid[-1] * np.array(BEYOND)])

    def _by_covering(self) -> Floats:
        price = np.full(self._count, np.inf)
        alike = {stage: self._alike(stage) for stage in self._work}
        for bound_s in self._grid[::-1].tolist():
            needs = (self._gpus_needed(stage, groups, bound_s) for stage, groups in alike.items())
            need = sum(needs, np.zeros(self._count))
            price[need <= self._cluster.gpus] = bound_s
        return price

    def _gpus_needed(self, stage: int, groups: Sequence[Group], bound_s: float) -> Floats:
        """Fewest GPUs with which the stage keeps within `bound_s`, verdict included, for each routing."""
        need = np.zeros(self._count)
        for table, gated, chosen, ratio in groups:
            need[chosen] = self._covering(table, self._allowed(stage, bound_s, gated), ratio)
        return need

    def _alike(self, stage: int) -> list[Group]:
        """Routings whose need is read off one table, gated or not: the same for every bound."""
        work = self._work[stage]
        groups = []
        for at, reference in enumerate(self._references[stage]):
            mine = (work > 0) & (self._nearest[stage] == at)
            for gated in (False,) if stage == JUDGE else (False, True):
                chosen = np.flatnonzero(mine if stage == JUDGE else mine & (self._judged[:, stage] == gated))
                if len(chosen):
                    groups.append(Group(reference.demand.table, gated, chosen, work[chosen] / reference.work))
        return groups

    def _allowed(self, stage: int, bound_s: float, gated: bool) -> float:
        judge_s = max(JUDGE_PART * bound_s, self._fastest_judge_s) if JUDGE in self._work else self._verdict_s
        if stage == JUDGE:
            return judge_s
        return bound_s - judge_s if gated else bound_s

    def _covering(self, table: StageTable, allowed_s: float, ratio: Floats) -> Floats:
        """Fewest GPUs for each multiple (at most 1) of the table's work."""
        share = self._known.covered(table, allowed_s)
        need = np.searchsorted(share, np.minimum(ratio, 1.0) - EPS).astype(float)
        need[need >= len(share)] = np.inf
        return need

    def _by_relaxation(self) -> Floats:
        price = np.full(self._count, np.inf)
        for k in range(self._count):
            low, high = -1, len(self._grid)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if self._relaxed(k, float(self._grid[middle])) else (middle, high)
            if high < len(self._grid):
                price[k] = self._grid[high]
        return price

    def _relaxed(self, k: int, bound_s: float) -> bool:
        """Could fractions of each pool's GPUs carry routing `k` within `bound_s`?"""
        program = pulp.LpProblem("relaxed", pulp.LpMinimize)
        spent: dict[str, list[pulp.LpVariable]] = {pool.name: [] for pool in self._cluster.pools}
        covering = []
        for stage, work in self._work.items():
            if work[k] <= 0:
                continue
            reference = self._references[stage][int(self._nearest[stage][k])]
            allowed = self._allowed(stage, bound_s, bool(self._judged[k, stage]))
            carried = []
            for pool, per_gpu in _per_gpu(reference.demand, allowed, list(spent)):
                gpus = program.add_variable(f"gpus_{stage}_{pool}", 0)
                carried.append(per_gpu * gpus)
                spent[pool].append(gpus)
            if not carried:
                return False
            covering.append(pulp.lpSum(carried) >= float(work[k]) / reference.work)
        program += pulp.lpSum(itertools.chain(*spent.values()))
        for constraint in covering:
            program += constraint
        for pool_ in self._cluster.pools:
            program += pulp.lpSum(spent[pool_.name]) <= pool_.gpus
        return solve(program, 10.0).found


def _per_gpu(demand: Demand, allowed_s: float, pools: Sequence[str]) -> list[tuple[str, float]]:
    """The best share per GPU on each pool that has any."""
    shares = demand.table.shares(allowed_s + EPS).tolist()
    best = {
        pool: max(
            (a / s.gpus for s, a in zip(demand.shapes, shares, strict=True) if s.pool == pool), default=0.0
        )
        for pool in pools
    }
    return [(pool, share) for pool, share in best.items() if share > 0]

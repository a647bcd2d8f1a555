"""The routing solver's view: about how low could the largest stage quantile be, for every routing at once?

Stage tables are made for a few routed sets only. For any other routing, a stage's work is that of its last table
times the ratio of the tokens sent to it, and the least bound L is found on a grid by the covering problem of each
stage (`knapsack.py`) on a single pool, or by its linear relaxation over several pools. Prices order the routings;
the routing that wins a round is then priced exactly, by tables of its own and the integer program.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.cluster import Cluster
from cascadia.planner.demand import JUDGE, Demand
from cascadia.planner.knapsack import EPS, cover
from cascadia.planner.milp import Milp

Floats = NDArray[np.float64]

GRID = 40
JUDGE_SLACK = 1.3
"""The judge is priced at this multiple of its lowest quantile; refinement finds its real place."""


class Prices:
    """Prices from the tables of `references`: by stage, a demand and the work (tokens) it was made for."""

    def __init__(self, references: Mapping[int, tuple[Demand, float]], cluster: Cluster, verdict_s: float):
        self._references = references
        self._cluster = cluster
        judge = references.get(JUDGE)
        self._judge_s = float(judge[0].table.bounds_s[0]) * JUDGE_SLACK if judge else verdict_s
        self._grid = self._bounds()

    def _bounds(self) -> Floats:
        finite = np.concatenate([d.table.bounds_s for d, _ in self._references.values() if d.stage != JUDGE])
        low, high = float(finite.min()), float(finite.max()) + self._judge_s
        return np.geomspace(max(low, 1e-6), max(high, low * 1.0001, 1e-6), GRID)

    def least_bound_s(self, work: Mapping[int, Floats], gated: Mapping[int, NDArray[np.bool_]]) -> Floats:
        """For K routings: `work[stage]` (K) tokens sent there (0: not deployed), `gated[stage]` (K).

        Infinite where no grid value can be kept.
        """
        if len(self._cluster.pools) == 1:
            return self._by_covering(work, gated)
        return self._by_relaxation(work, gated)

    def _by_covering(self, work: Mapping[int, Floats], gated: Mapping[int, NDArray[np.bool_]]) -> Floats:
        total = self._cluster.gpus
        count = len(next(iter(work.values())))
        price = np.full(count, np.inf)
        for bound_s in self._grid[::-1].tolist():
            need = np.zeros(count)
            for stage, tokens in work.items():
                ratio = tokens / self._references[stage][1]
                needed = self._gpus_needed(stage, bound_s, ratio, total)
                if stage != JUDGE and gated[stage].any():
                    behind = self._gpus_needed(stage, bound_s - self._judge_s, ratio, total)
                    needed = np.where(gated[stage], behind, needed)
                need += np.where(tokens > 0, needed, 0)
            price[need <= total] = bound_s
        return price

    def _gpus_needed(self, stage: int, bound_s: float, ratio: Floats, total: int) -> Floats:
        demand = self._references[stage][0]
        allowed = self._judge_s if stage == JUDGE else bound_s
        shares = demand.table.shares(allowed + EPS)
        if not shares.any():
            return np.full(len(ratio), np.inf)
        found = cover([s.gpus for s in demand.shapes], shares, total, enough=float(ratio.max()))
        need = np.searchsorted(found.share, ratio - EPS).astype(float)
        need[need > total] = np.inf
        return need

    def _by_relaxation(self, work: Mapping[int, Floats], gated: Mapping[int, NDArray[np.bool_]]) -> Floats:
        count = len(next(iter(work.values())))
        price = np.full(count, np.inf)
        for k in range(count):
            low, high = -1, len(self._grid)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if self._relaxed(k, middle, work, gated) else (middle, high)
            if high < len(self._grid):
                price[k] = self._grid[high]
        return price

    def _relaxed(
        self, k: int, at: int, work: Mapping[int, Floats], gated: Mapping[int, NDArray[np.bool_]]
    ) -> bool:
        """Could fractions of each pool's GPUs carry routing `k` within grid value `at`?"""
        milp, rows = Milp(), {pool.name: [] for pool in self._cluster.pools}  # type: ignore[var-annotated]
        for stage, tokens in work.items():
            if tokens[k] <= 0:
                continue
            demand, reference = self._references[stage]
            bound_s = float(self._grid[at])
            allowed = self._judge_s if stage == JUDGE else bound_s - self._judge_s * bool(gated[stage][k])
            shares = demand.table.shares(allowed + EPS)
            row = []
            for pool in self._cluster.pools:
                per_gpu = max(
                    (
                        a / s.gpus
                        for s, a in zip(demand.shapes, shares.tolist(), strict=True)
                        if s.pool == pool.name
                    ),
                    default=0.0,
                )
                if per_gpu > 0:
                    column = milp.real(cost=1.0)
                    row.append((column, per_gpu))
                    rows[pool.name].append((column, 1.0))
            if not row:
                return False
            milp.at_least(float(tokens[k]) / reference, row)
        for pool in self._cluster.pools:
            milp.at_most(float(pool.gpus), rows[pool.name])
        return milp.solve(10.0).values is not None

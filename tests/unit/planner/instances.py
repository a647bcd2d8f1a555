"""Allocation problems made by hand: shapes without a model behind them, and latency tables drawn at random."""

from collections.abc import Sequence

import numpy as np

from cascadia.domain.cluster import Cluster, Pool
from cascadia.planner.allocation.demand import JUDGE, Demand
from cascadia.planner.tables.shapes import Shape
from cascadia.planner.tables.tables import StageTable
from tests.unit.sim.machines import machine

TIMING = machine()
LEVELS = 4


def pool(nodes: int, gpus_per_node: int, name: str = "a", usd: float = 1.0) -> Pool:
    return Pool(name, "h100-sxm", nodes, gpus_per_node, usd)


def shape(tp: int, pp: int = 1, pool: str = "a", usd_per_gpu: float = 1.0) -> Shape:
    return Shape(pool, tp, pp, TIMING, tp * pp * usd_per_gpu)


def table(shapes: Sequence[Shape], latency_s: Sequence[Sequence[float]]) -> StageTable:
    """Rows by shape; columns are levels 1, 2, ..."""
    rows = np.array(latency_s, dtype=np.float64).reshape(len(shapes), -1)
    stable = np.isfinite(rows)
    saturated = np.where(stable.any(axis=1), stable.argmax(axis=1) + 1.0, np.inf)
    return StageTable(tuple(shapes), np.arange(1, rows.shape[1] + 1), rows, saturated, 1000)


def demand(stage: int, shapes: Sequence[Shape], latency_s: Sequence[Sequence[float]], gated: bool) -> Demand:
    return Demand(stage, f"s{stage}", table(shapes, latency_s), gated)


def random_table(rng: np.random.Generator, shapes: Sequence[Shape], fastest_s: float) -> StageTable:
    """Larger shapes are faster and carry more, mostly; quarters of a second, so that ties are common."""
    rows = []
    for s in shapes:
        strength = s.gpus ** rng.uniform(0.3, 1.2)
        unstable = int(rng.integers(0, 3 if s.gpus == 1 else 2))
        wait = np.cumsum(rng.exponential(size=LEVELS))[::-1]
        row = np.round(4 * fastest_s * (1 + 3 * wait) / strength) / 4 + 0.25
        row[:unstable] = np.inf
        rows.append(row.tolist())
    return table(shapes, rows)


def random_instance(seed: int, *, pools: int = 1) -> tuple[list[Demand], Cluster, float]:
    """2 or 3 stages on at most 8 GPUs a pool, with or without a judge that takes GPUs, and a verdict's delay."""
    rng = np.random.default_rng(seed)
    sizes = [(1, 6), (1, 8), (2, 4), (2, 3)] if pools == 1 else [(1, 2), (1, 4), (2, 2), (1, 3)]
    found = []
    for index in range(pools):
        nodes, per_node = sizes[int(rng.integers(len(sizes)))]
        found.append(pool(nodes, per_node, "ab"[index], float(rng.choice([1.0, 2.5]))))
    stages = int(rng.choice([2, 2, 3])) if pools == 1 else 2
    demands = [
        Demand(s, f"s{s}", random_table(rng, _shapes(rng, found), 0.5 + s), gated=s < stages - 1)
        for s in range(stages)
    ]
    hosted = bool(rng.integers(2))
    if hosted:
        demands.append(Demand(JUDGE, "judge", random_table(rng, _shapes(rng, found)[:2], 0.2), gated=False))
    return demands, Cluster(tuple(found)), 0.0 if hosted else float(rng.choice([0.0, 0.5]))


def _shapes(rng: np.random.Generator, pools: Sequence[Pool]) -> list[Shape]:
    """Two or three shapes of each pool, pipelines among them."""
    chosen = []
    for p in pools:
        every = [
            (tp, pp) for tp in (1, 2, 4, 8) for pp in (1, 2) if tp <= p.gpus_per_node and tp * pp <= p.gpus
        ]
        small = 0 if rng.uniform() < 0.7 else 1
        picks = rng.choice(
            np.arange(small + 1, len(every)), size=min(len(every) - small - 1, 2), replace=False
        )
        chosen += [shape(*every[i], p.name, p.usd_per_gpu_hour) for i in (small, *sorted(picks.tolist()))]
    return chosen

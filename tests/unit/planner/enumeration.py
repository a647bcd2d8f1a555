"""The allocation problem by enumeration: every multiset of (shape, level) columns, every way to lay it on nodes."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from cascadia.domain.cluster import Cluster, Pool
from cascadia.planner.allocation.demand import JUDGE, Demand

Groups = tuple[tuple[str, int], ...]
"""Tensor-parallel groups in use, as sorted (pool, GPUs)."""
Deployed = tuple[Groups, float]


class Best(NamedTuple):
    latency_s: float
    gpus: int


def lay_on_nodes(sizes: Sequence[int], nodes: int, gpus_per_node: int) -> bool:
    """Can groups of these sizes be put on the nodes? By trying; one larger than a node takes whole nodes."""
    spanning = sum(-(-size // gpus_per_node) for size in sizes if size > gpus_per_node)
    rest = sorted((size for size in sizes if size <= gpus_per_node), reverse=True)
    return spanning <= nodes and _put(tuple(rest), (gpus_per_node,) * (nodes - spanning))


@cache
def _put(sizes: tuple[int, ...], free: tuple[int, ...]) -> bool:
    if not sizes:
        return True
    if sum(sizes) > sum(free):
        return False
    first, rest = sizes[0], sizes[1:]
    for at in {room: i for i, room in enumerate(free) if room >= first}.values():
        left = tuple(sorted((*free[:at], free[at] - first, *free[at + 1 :])))
        if _put(rest, left):
            return True
    return False


def best_by_enumeration(demands: Sequence[Demand], cluster: Cluster, verdict_s: float) -> Best | None:
    """The least largest-stage latency, then the fewest GPUs; None where nothing is stable."""
    menus = [sorted(_deployments(d, cluster).items(), key=lambda kept: kept[1]) for d in demands]
    judge = next((i for i, d in enumerate(demands) if d.stage == JUDGE), None)
    best: Best | None = None
    for chosen in _within(menus, cluster.gpus):
        judge_s = chosen[judge][1] if judge is not None else verdict_s
        stages = [(d, took) for d, (_, took) in zip(demands, chosen, strict=True) if d.stage != JUDGE]
        found = Best(
            max(took + (judge_s if d.gated else 0.0) for d, took in stages),
            sum(size for groups, _ in chosen for _, size in groups),
        )
        if best is not None and found >= best:
            continue
        if _fits([group for groups, _ in chosen for group in groups], cluster.pools):
            best = found
    return best


def _within(menus: Sequence[Sequence[Deployed]], gpus: int) -> Iterator[tuple[Deployed, ...]]:
    """One of each menu, in all ways, on at most `gpus` GPUs."""
    if not menus:
        yield ()
        return
    for groups, took in menus[0]:
        left = gpus - sum(size for _, size in groups)
        if left >= len(menus) - 1:
            yield from (((groups, took), *rest) for rest in _within(menus[1:], left))


def _fits(groups: Sequence[tuple[str, int]], pools: Sequence[Pool]) -> bool:
    return all(
        lay_on_nodes([g for name, g in groups if name == p.name], p.nodes, p.gpus_per_node) for p in pools
    )


def _deployments(demand: Demand, cluster: Cluster) -> dict[Groups, float]:
    """The least latency of one demand for each set of groups that carries it."""
    found: dict[Groups, float] = {}
    columns = [
        (shape, int(level), float(demand.table.latency_s[s, k]))
        for s, shape in enumerate(demand.shapes)
        for k, level in enumerate(demand.table.levels)
        if np.isfinite(demand.table.latency_s[s, k])
    ]
    for counts in _counts([c[0].gpus for c in columns], cluster.gpus):
        used = [(column, n) for column, n in zip(columns, counts, strict=True) if n]
        if sum(n / level for (_, level, _), n in used) < 1 - 1e-9:
            continue
        groups: Groups = tuple(sorted((s.pool, s.tp) for (s, _, _), n in used for _ in range(n * s.pp)))
        latency = max(took for (_, _, took), _ in used)
        found[groups] = min(latency, found.get(groups, np.inf))
    return found


def _counts(sizes: Sequence[int], total: int) -> Iterator[tuple[int, ...]]:
    if not sizes:
        yield ()
        return
    for n in range(total // sizes[0] + 1):
        for rest in _counts(sizes[1:], total - n * sizes[0]):
            yield (n, *rest)

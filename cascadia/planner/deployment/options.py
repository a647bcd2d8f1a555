"""Options of a stage: a short list of mixes of replicas, from the fewest GPUs to the lowest latency."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.cluster import Cluster
from cascadia.planner.allocation.demand import Demand, Replicas
from cascadia.planner.allocation.knapsack import EPS, cover, mix
from cascadia.planner.tables.packing import packing_rows
from cascadia.planner.tables.tables import StageTable

Mix = tuple[Replicas, ...]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Option:
    """A mix for one demand and the quantile bound that its tables promise."""

    replicas: Mix
    bound_s: float

    @property
    def gpus(self) -> int:
        return sum(r.shape.gpus * r.count for r in self.replicas)

    @property
    def usd_per_hour(self) -> float:
        return sum(r.shape.usd_per_hour * r.count for r in self.replicas)

    @property
    def key(self) -> tuple[tuple[str, int, int, int], ...]:
        return tuple((r.shape.pool, r.shape.tp, r.shape.pp, r.count) for r in self.replicas)


def idle_usd(choices: Sequence[Sequence[Option]], grid: Ints) -> Floats:
    """Dollars an hour (m) of GPUs that combinations of options [m, demands] leave idle on nodes that are paid for
    whole.
    """
    shapes = list({id(r.shape): r.shape for c in choices for o in c for r in o.replicas}.values())
    usd = np.zeros(len(grid))
    for pool in {s.pool: s.by_node for s in shapes if s.by_node is not None}.values():
        rows = packing_rows(replace(pool, nodes=1), shapes)
        weights = [{id(s): w for s, w in zip(shapes, row.weights, strict=True)} for row in rows]
        taken = [_of_each(weight, choices, grid) for weight in weights]
        nodes = np.max([-(-units // row.limit) for units, row in zip(taken, rows, strict=True)], axis=0)
        # The first row is of single GPUs.
        usd += (nodes * pool.gpus_per_node - taken[0]) * pool.paid_usd_per_gpu_hour
    return usd


def _of_each(weight: dict[int, int], choices: Sequence[Sequence[Option]], grid: Ints) -> Ints:
    total = np.zeros(len(grid), np.int64)
    for d, c in enumerate(choices):
        total += np.array([sum(weight[id(r.shape)] * r.count for r in o.replicas) for o in c])[grid[:, d]]
    return total


def options(
    demand: Demand,
    cluster: Cluster,
    *,
    need: float = 1.0,
    at_most: int = 48,
    spacing: float = 1.02,
    most_gpus: int | None = None,
) -> list[Option]:
    """Mixes for `demand`, by cost ascending: per pool, the smallest mix for each of a grid of bounds.

    `need` is the work to cover, as a multiple of what the demand's table was made for. Bounds nearer than
    `spacing` (a ratio) are one. They are thinned evenly to `at_most`.
    """
    found: dict[object, Option] = {}
    for pool in cluster.pools:
        mine = [s for s, shape in enumerate(demand.shapes) if shape.pool == pool.name]
        gpus = [demand.shapes[s].gpus for s in mine]
        for bound_s in _spaced(np.unique(_finite(demand.table.latency_s[mine])), spacing):
            shares = largest_shares(demand.table, bound_s + EPS)[mine]
            most = pool.gpus if most_gpus is None else min(most_gpus, pool.gpus)
            covered = cover(gpus, shares, most, enough=need)
            # No work needs no GPU, but what is deployed has a replica: a next request may come to it.
            enough = np.flatnonzero(covered.share >= max(need - EPS, EPS))
            if not len(enough):
                continue
            counts = mix(covered, gpus, int(enough[0]))
            replicas = tuple(
                Replicas(demand.shapes[mine[s]], n, 1.0 / float(shares[s])) for s, n in sorted(counts.items())
            )
            option = Option(replicas, bound_s)
            found.setdefault(option.key, option)
    # Within a pool, what costs more must be faster; across pools that is not asked, since GPUs may run out.
    kept = [
        option
        for pool in cluster.pools
        for option in thinned(
            _undominated(o for o in found.values() if o.replicas[0].shape.pool == pool.name),
            max(at_most // len(cluster.pools), 2),
        )
    ]
    return sorted(kept, key=lambda o: (o.usd_per_hour, o.gpus, o.bound_s))


def largest_shares(table: StageTable, bound_s: float) -> Floats:
    """Largest share of the requests per shape that keeps within `bound_s` (0: none), between levels as well.

    Equal replicas take 1/k each, so whole levels do for them; unequal ones take what each is able to.
    """
    at = table.best_level(bound_s)
    rows, before = np.arange(len(at)), np.maximum(at - 1, 0)
    here, slower = table.latency_s[rows, at], table.latency_s[rows, before]
    between = (at > 0) & np.isfinite(slower) & (here > 0)
    ratio = np.log(np.where(between, slower / np.where(between, here, 1.0), np.e))
    part = np.log(bound_s / np.where(between, here, bound_s)) / ratio
    levels = table.levels.astype(float)
    found: Floats = np.where(at < 0, 0.0, (levels[at] / levels[before]) ** part / levels[at])
    return found


def thinned(choices: list[Option], at_most: int) -> list[Option]:
    if len(choices) <= at_most:
        return choices
    keep = np.unique(np.rint(np.linspace(0, len(choices) - 1, at_most)).astype(int))
    return [choices[i] for i in keep]


def _undominated(found: Iterable[Option]) -> list[Option]:
    """Options by cost ascending, each with a lower bound than all cheaper ones."""
    ordered = sorted(found, key=lambda o: (o.usd_per_hour, o.gpus, o.bound_s))
    kept: list[Option] = []
    for option in ordered:
        if not kept or option.bound_s < kept[-1].bound_s:
            kept.append(option)
    return kept


def _finite(
    values: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]",
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return values[np.isfinite(values)]


def _spaced(values: "np.ndarray[tuple[int], np.dtype[np.float64]]", ratio: float) -> list[float]:
    """Values spaced from below, and the largest: the cheapest mix may keep no other."""
    kept: list[float] = []
    for value in values.tolist():
        if not kept or value >= kept[-1] * ratio or value == values[-1]:
            kept.append(value)
    return kept

"""What to rent for a language model: the integer program against enumeration, and which mixture wins at which prices.

    python -m tests.benchmarks.bench_rent_pools [--instances 40] [--simulated 6]

1. Instances drawn at random: a model, lengths, three GPU types with nodes of their own size and price, a budget. The
   rate that the program's choice sustains by the tables, against every number of nodes of each type, each filled in
   the best way, found without a solver. Of the first few, what configurations that nothing can be added to carry when
   simulated (certificate of stability) as well.
2. Ten price vectors for Llama-3.1-8B at $24/h: list, spot, owned, scarce.

Exits with 1 where a choice is more than 1 % worse than enumeration's.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

import numpy as np

from cascadia.domain.cluster import Cluster, Pool, Spot
from cascadia.planner.allocation.demand import Demand, Replicas
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.plan import routings_of
from cascadia.planner.pool.affordable import affordable
from cascadia.planner.pool.worth import dominance_note
from cascadia.planner.search.context import Search, start_search
from cascadia.planner.search.throughput import carried_rps, most_capable
from cascadia.planner.tables.shapes import Shape
from tests.benchmarks.report_table import markdown
from tests.unit.planner.problems import LARGE, MEDIUM, SMALL, problem, rising_table, traffic

GPUS = {"h100-sxm": 2.95, "a100-sxm": 1.79, "l40s": 1.55, "a40": 0.6, "h200-sxm": 3.5, "rtx4090": 0.45}
WITHIN = 0.99
BUDGET_USD = 24.0


@contextmanager
def searched(model: str, pools: Sequence[Pool], budget_usd: float, seed: int) -> Iterator[Search]:
    made = problem(
        (model,), pools=pools, trace=traffic(240, 30.0, seed), table=rising_table(1), quality_min=0.0
    )
    made = affordable(replace(made, cluster=Cluster(tuple(pools), budget_usd)))
    with ThreadPoolExecutor(2) as threads:
        yield start_search(made, routings_of(made)[0], threads)


def fillings(
    pool: Pool, shapes: Sequence[Shape], rates: Sequence[float]
) -> list[tuple[float, tuple[int, ...]]]:
    """The most that 0, 1, 2, ... nodes of a pool sustain, with the replicas of each shape, filled GPU by GPU.

    Groups of 1, 2, 4 GPUs fill nodes of 1, 2, 4 GPUs without a gap, so only their sum matters; pipelines may span."""
    none = (0.0, (0,) * len(shapes))
    best = [none] * (pool.gpus + 1)
    for gpus in range(1, pool.gpus + 1):
        best[gpus] = best[gpus - 1]
        for s, (shape, rate) in enumerate(zip(shapes, rates, strict=True)):
            if shape.gpus <= gpus and shape.pool == pool.name:
                value, counts = best[gpus - shape.gpus]
                if value + rate > best[gpus][0]:
                    best[gpus] = value + rate, (*counts[:s], counts[s] + 1, *counts[s + 1 :])
    return [best[k * pool.gpus_per_node] for k in range(pool.nodes + 1)]


def enumerated(search: Search, demand: Demand) -> list[tuple[float, Deployment]]:
    """Every number of nodes within the budget that nothing can be added to, by what it sustains (factors of the rate),
    most first."""
    cluster = search.problem.cluster
    rates = [1.0 / max(x, 1e-9) for x in demand.table.saturated.tolist()]
    filled = [fillings(pool, demand.shapes, rates) for pool in cluster.pools]
    usd = [pool.usd_per_node_hour for pool in cluster.pools]
    assert cluster.budget_usd_per_hour is not None
    found = []
    for nodes in product(*(range(pool.nodes + 1) for pool in cluster.pools)):
        left = cluster.budget_usd_per_hour - sum(n * price for n, price in zip(nodes, usd, strict=True))
        more = any(
            n < p.nodes and price <= left for n, p, price in zip(nodes, cluster.pools, usd, strict=True)
        )
        if left < -1e-9 or more:
            continue
        parts = [of_pool[n] for of_pool, n in zip(filled, nodes, strict=True)]
        counts = np.sum([each for _, each in parts], axis=0).tolist()
        mix = tuple(
            Replicas(shape, count, max(level, 1e-9))
            for shape, count, level in zip(
                demand.shapes, counts, demand.table.saturated.tolist(), strict=True
            )
            if count
        )
        found.append((sum(value for value, _ in parts), deployment(0, {0: mix})))
    return sorted(found, key=lambda each: -each[0])


def drawn(seed: int) -> tuple[str, tuple[Pool, ...], float]:
    rng = np.random.default_rng(seed)
    names = rng.choice(list(GPUS), 3, replace=False).tolist()
    pools = tuple(
        Pool(
            name, name, int(rng.integers(2, 9)), int(rng.choice([1, 2, 4])),
            round(GPUS[name] * float(rng.uniform(0.3, 1.3)), 2),
        )
        for name in names
    )  # fmt: skip
    model = (SMALL, MEDIUM, LARGE)[seed % 3]
    dearest = max(pool.usd_per_node_hour for pool in pools)
    return model, pools, round(float(rng.uniform(2.5, 5.0)) * dearest, 2)


def against_enumeration(instances: int, simulated: int) -> bool:
    ratios, carried, sizes = [], [], []
    for seed in range(instances):
        model, pools, budget = drawn(seed)
        with searched(model, pools, budget, seed) as search:
            (demand,) = search.demands(0)
            every = enumerated(search, demand)
            found = most_capable(search, 0)
            assert found is not None
            ratios.append(found[0] / every[0][0])
            sizes.append(len(every))
            if seed < simulated:
                ours = carried_rps(search, [found])
                best = max(carried_rps(search, [one]) for one in every[:8])
                carried.append(ours / max(best, ours))
        print(
            f"{seed}: {model} {ratios[-1]:.4f} of {len(every)}", *carried[seed:], file=sys.stderr, flush=True
        )
    worst = min(ratios)
    print(
        f"{instances} instances, {min(sizes)} to {max(sizes)} configurations to choose from: the program's choice"
        f" sustains {worst:.4f} to {max(ratios):.4f} of enumeration's best; simulated, {len(carried)} instances:"
        f" {min(carried, default=1.0):.3f} to 1 of the best of the eight that seem to sustain most"
    )
    return worst >= WITHIN


def vectors() -> dict[str, tuple[Pool, ...]]:
    h100, a100 = Pool("h100", "h100-sxm", 8, 2, 2.95), Pool("a100", "a100-sxm", 8, 2, 1.79)
    l40s = Pool("l40s", "l40s", 16, 2, 1.55)
    return {
        "list": (h100, a100, l40s),
        "L40S spot at 0.3": (h100, a100, replace(l40s, spot=Spot(0.47, 2.0))),
        "L40S spot, taken every hour": (h100, a100, replace(l40s, spot=Spot(0.47, 24.0))),
        "A100 spot at 0.35": (h100, replace(a100, spot=Spot(0.63, 2.0)), l40s),
        "H100 reserved at 0.7": (replace(h100, usd_per_gpu_hour=2.07), a100, l40s),
        "2 nodes of H100 to be had": (replace(h100, nodes=2), a100, l40s),
        "1 node of H100, no A100": (replace(h100, nodes=1), replace(l40s, nodes=16)),
        "4 A100 owned, paid for": (h100, replace(a100, nodes=2, usd_per_gpu_hour=0.0), l40s),
        "16 L40S owned, paid for": (h100, a100, replace(l40s, nodes=8, usd_per_gpu_hour=0.0)),
        "H100 at twice the list": (replace(h100, usd_per_gpu_hour=5.9), a100, l40s),
    }


def mixture(search: Search, here: Deployment) -> str:
    rented = [(pool, here.rented(pool)) for pool in search.problem.cluster.pools]
    return " + ".join(f"{n * pool.gpus_per_node} {pool.name}" for pool, n in rented if n)


def which_wins(names: Sequence[str]) -> list[tuple[str, ...]]:
    rows = []
    for name in names:
        pools = vectors()[name]
        with searched(MEDIUM, pools, BUDGET_USD, 0) as search:
            found = most_capable(search, 0)
            assert found is not None
            best, chosen = carried_rps(search, [found]), mixture(search, found[1])
            note = dominance_note(search, 0)[0]
            short = note.removesuffix(", latency aside").split(", until")[0]
        alone = []
        for pool in pools:
            with searched(MEDIUM, (pool,), BUDGET_USD, 0) as search:
                found = most_capable(search, 0)
                assert found is not None
                alone.append((carried_rps(search, [found]), mixture(search, found[1])))
        most = max(alone)
        rows.append((name, chosen, f"{best:.0f}", most[1], f"{most[0]:.0f}", f"{best / most[0]:.2f}", short))
        print(rows[-1], note, file=sys.stderr, flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=int, default=40)
    parser.add_argument("--simulated", type=int, default=6)
    parser.add_argument("--vectors", nargs="*", default=list(vectors()), choices=list(vectors()))
    options = parser.parse_args()
    good = against_enumeration(options.instances, options.simulated) if options.instances else True
    heads = ("prices", "rented", "requests/s", "best of one type", "requests/s", "ratio", "by size")
    print(markdown(heads, which_wins(options.vectors)))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())

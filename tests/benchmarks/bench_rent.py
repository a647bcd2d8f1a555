"""Which instances to rent, in Kairos' setting: its estimate beside the linear program, and its search beside others.

    python -m tests.benchmarks.bench_rent [--models N ...] [--budget 2.5] [--queries 2000]

1. Random instances: how often, and by how much, the estimate (Eq. 15) is below the linear program: then it is no bound.
2. CPU time to bound 1,000 configurations.
3. Per model, every configuration within the budget is tried; then Kairos' pick, Kairos+ (Alg. 1) by either bound, and
   random search, simulated annealing and a genetic algorithm with the same pruning of sub-configurations (Fig. 11):
   the share of the space that each tries until it has the best (within 1 %, about the trials' own precision), and of
   Kairos+ also until it knows, which the others never do.
4. Against the best of one type, scaled up to the whole budget (Fig. 8).

Exits with 1 where 1,000 bounds take over 2 s, or where Kairos+ misses the best.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from time import process_time

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cascadia.planner.pool.kairos import Fluid, Types, configurations, estimates_rps, kairos_plus, picked
from tests.benchmarks.kairos_setting import BUDGET_USD, MODELS, USD, XI, Model, like_metas, types_of
from tests.benchmarks.report_table import markdown

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Search = Callable[[np.random.Generator, Ints], Iterator[int]]

WITHIN = 0.99
SEEDS = 5


def served_rps(model: Model, sizes: Floats, gaps: Floats, config: Ints) -> float:
    """The highest rate at which 99 % of queries are in time, each given to the instance that takes least of the base
    type's time among those that finish it in time (Eq. 2, 3 with one query)."""
    kinds = np.repeat(np.arange(len(config)), config)
    seconds = model.seconds(sizes)
    dear = seconds[0].max() / seconds.max(axis=1)
    if not config[0]:
        return 0.0
    high = float(config @ (1.0 / seconds.mean(axis=1))) * 2.0
    low = 0.0
    while high - low > 0.005 * high:
        middle = (low + high) / 2
        late = _late(np.cumsum(gaps) / middle, seconds, kinds, dear, model.qos_s, XI)
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


def random_types(rng: np.random.Generator, auxiliary: int) -> Types:
    """Latencies linear in the size; each auxiliary type serves the sizes up to one of its own in time."""
    sizes = np.arange(1, 11, dtype=float)
    slope = np.concatenate([[1.0], rng.uniform(1.2, 6.0, auxiliary)])
    start = np.concatenate([[rng.uniform(0.5, 5.0)], rng.uniform(0.0, 3.0, auxiliary)])
    reach = np.concatenate([[10], rng.integers(1, 10, auxiliary)])
    seconds = start[:, None] + slope[:, None] * sizes
    return Types(seconds, rng.dirichlet(np.ones(10)), np.arange(10)[None, :] < reach[:, None])


def estimates_against_bounds(instances: int) -> list[tuple[str, ...]]:
    rows = []
    for auxiliary in (1, 2, 3):
        rng = np.random.default_rng(auxiliary)
        ratios = []
        for _ in range(instances):
            types = random_types(rng, auxiliary)
            config = np.array([[rng.integers(1, 6), *rng.integers(1, 10, auxiliary)]])
            ratios.append(float(estimates_rps(types, config)[0]) / Fluid(types).bound_rps(config[0]))
        found = np.array(ratios)
        rows.append(
            (
                f"{auxiliary}",
                f"{(found < 1 - 1e-6).mean():.0%}",
                f"{(found < 0.99).mean():.0%}",
                f"{found.min():.2f}",
                f"{np.median(found):.2f}",
                f"{found.max():.2f}",
            )
        )
    return rows


def bounding_s(count: int) -> tuple[int, float, float]:
    """CPU seconds to bound so many configurations, by linear program and by the estimate."""
    types = types_of(MODELS["RM2"], like_metas(10_000, 0))
    configs = configurations(USD, np.full(4, 99), 2 * BUDGET_USD)
    configs = configs[np.linspace(0, len(configs) - 1, count).astype(int)]
    start = process_time()
    fluid = Fluid(types)
    for config in configs:
        fluid.bound_rps(config)
    middle = process_time()
    estimates_rps(types, configs)
    return len(configs), middle - start, process_time() - middle


def at_random(rng: np.random.Generator, configs: Ints) -> Iterator[int]:
    yield from rng.permutation(len(configs)).tolist()


class _Space:
    """Configurations by their numbers of instances."""

    def __init__(self, configs: Ints) -> None:
        self.configs = configs
        self.at = {tuple(config): k for k, config in enumerate(configs.tolist())}

    def neighbour(self, rng: np.random.Generator, k: int) -> int:
        while True:
            step = self.configs[k].copy()
            for _ in range(int(rng.integers(1, 3))):
                step[rng.integers(len(step))] += rng.choice([-1, 1])
            if (found := self.at.get(tuple(step.tolist()))) is not None:
                return found

    def child(self, rng: np.random.Generator, a: int, b: int) -> int:
        mixed = np.where(rng.random(self.configs.shape[1]) < 0.5, self.configs[a], self.configs[b])
        found = self.at.get(tuple(mixed.tolist()), a)
        return self.neighbour(rng, found) if rng.random() < 0.4 else found


def annealed(rng: np.random.Generator, space: _Space, rate: Callable[[int], float], most: int) -> None:
    here = int(rng.integers(len(space.configs)))
    value = rate(here)
    for step in range(most):
        heat = 0.2 * (1 - step / most) + 1e-3
        other = space.neighbour(rng, here)
        found = rate(other)
        if found >= value or rng.random() < np.exp((found - value) / (heat * max(value, 1e-9))):
            here, value = other, found


def evolved(rng: np.random.Generator, space: _Space, rate: Callable[[int], float], most: int) -> None:
    people = [(rate(k), k) for k in rng.integers(len(space.configs), size=20).tolist()]
    for _ in range(most // 10):
        people = sorted(people, reverse=True)[:10]
        parents = rng.integers(len(people), size=(10, 2)).tolist()
        people += [(rate(k), k) for a, b in parents for k in [space.child(rng, people[a][1], people[b][1])]]


class _Found(Exception):
    """The best has been tried."""


def tried_until(
    rates: Floats, configs: Ints, run: Callable[[Callable[[int], float]], None], goal: float
) -> int:
    """Configurations tried until one serves `goal`; what lies within one that was tried is known to be no better."""
    pruned = np.zeros(len(configs), dtype=bool)
    tried: set[int] = set()

    def rate(k: int) -> float:
        if k not in tried and not pruned[k]:
            tried.add(k)
            pruned[(configs <= configs[k]).all(axis=1)] = True
            if rates[k] >= goal:
                raise _Found
        return float(rates[k])

    try:
        run(rate)
    except _Found:
        return len(tried)
    return len(configs)


def searched(name: str, queries: int, budget_usd: float) -> tuple[tuple[str, ...], bool]:
    model, sizes = MODELS[name], like_metas(queries)
    gaps = np.random.default_rng(2).exponential(size=queries)
    types = types_of(model, sizes)
    configs = configurations(USD, np.full(4, 99), budget_usd)
    known: dict[int, float] = {}
    at = {tuple(config): k for k, config in enumerate(configs.tolist())}

    def evaluate(config: Ints) -> float:
        k = at[tuple(config.tolist())]
        if k not in known:
            known[k] = served_rps(model, sizes, gaps, config)
        return known[k]

    rates = np.array([evaluate(config) for config in configs])
    best, goal = float(rates.max()), WITHIN * float(rates.max())
    fluid, estimates = Fluid(types), estimates_rps(types, configs)
    bounds = np.array([fluid.bound_rps(config) for config in configs])
    by_estimate, by_bound = (kairos_plus(configs, upper, evaluate) for upper in (estimates, bounds))
    space = _Space(configs)

    def median(run: Callable[[np.random.Generator, Callable[[int], float]], None]) -> float:
        each = [
            tried_until(rates, configs, lambda rate, seed=seed: run(np.random.default_rng(seed), rate), goal)  # type: ignore[misc]
            for seed in range(SEEDS)
        ]
        return float(np.median(each))

    most = 3 * len(configs)
    others = [
        median(lambda rng, rate: [rate(k) for k in at_random(rng, configs)] and None),
        median(lambda rng, rate: annealed(rng, space, rate, most)),
        median(lambda rng, rate: evolved(rng, space, rate, most)),
    ]
    alone = max(
        float(rates[at[tuple(int(n) if j == kind else 0 for j in range(4))]]) * budget_usd / (n * USD[kind])
        for kind, n in enumerate((budget_usd // USD).astype(int))
    )
    share = lambda count: f"{count / len(configs):.2%}"  # noqa: E731

    def first(order: list[int]) -> int:
        return next((n for n, k in enumerate(order, 1) if rates[k] >= goal), len(configs))

    row = (
        name,
        f"{len(configs):,}",
        " ".join(str(n) for n in configs[int(rates.argmax())]),
        f"{best / alone:.2f}",
        f"{rates[picked(configs, estimates)] / best:.2f}",
        f"{rates[picked(configs, bounds)] / best:.2f}",
        *(f"{share(first(found.order))} / {share(len(found.order))}" for found in (by_estimate, by_bound)),
        *(share(count) for count in others),
        f"{(rates > estimates * 1.005).mean():.0%} / {(rates > bounds * 1.005).mean():.0%}",
    )
    return row, by_bound.rps >= goal


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--budget", type=float, default=BUDGET_USD)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--instances", type=int, default=2000)
    options = parser.parse_args()
    heads = ("auxiliary types", "below the program", "by over 1 %", "least", "median", "most")
    print(markdown(heads, estimates_against_bounds(options.instances)), flush=True)
    count, program_s, estimate_s = bounding_s(1000)
    print(
        f"\n{count:,} configurations bounded in {program_s:.2f} s of CPU (the estimate: {estimate_s * 1e3:.1f} ms)\n"
    )
    rows, good = [], program_s <= 2.0
    for name in options.models:
        row, holds = searched(name, options.queries, options.budget)
        rows.append(row)
        good &= holds
        print(row, file=sys.stderr, flush=True)
    columns = (
        "model", "space", "best", "best / best of one type", "Kairos' pick / best", "pick by the program / best",
        "Kairos+ until found / known", "by the program", "random", "annealing", "genetic",
        "serve more than estimate / program",
    )  # fmt: skip
    print(markdown(columns, rows))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())

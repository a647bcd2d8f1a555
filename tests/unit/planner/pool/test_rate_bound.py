"""The linear program's bound: known answers, never below what random deployments or simulated ones carry."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from cascadia.domain.cluster import Cluster, Pool
from cascadia.planner.plan import routings_of
from cascadia.planner.pool.fluid import least_s
from cascadia.planner.pool.largest_rate import least_factor
from cascadia.planner.pool.rate_bound import Work, factor_bound, rate_bound_rps
from cascadia.planner.search.context import start_search
from cascadia.planner.search.throughput import carried_rps, most_capable
from cascadia.planner.tables.capacity import sustained_rps
from cascadia.planner.tables.loads import stage_load
from tests.unit.planner.instances import shape
from tests.unit.planner.problems import MEDIUM, SMALL, problem, traffic

DEAR, CHEAP = Pool("dear", "h100-sxm", 4, 1, 3.0), Pool("cheap", "l40s", 8, 1, 1.0)


def work(seconds: list[list[float]], *pools: str) -> Work:
    each = np.array(seconds)
    return Work(tuple(shape(1, pool=p) for p in pools), each, np.arange(each.shape[1]))


def test_one_kind_carries_what_its_replicas_do_in_the_period() -> None:
    found = factor_bound([work([[1.0, 3.0]], "dear")], Cluster((DEAR,)), 60.0)
    assert found == pytest.approx(60.0 * 4 / 4.0)
    spent = Cluster((DEAR,), budget_usd_per_hour=7.5)
    assert factor_bound([work([[1.0, 3.0]], "dear")], spent, 60.0) == pytest.approx(60.0 * 2.5 / 4.0)


def test_each_size_goes_where_it_costs_least() -> None:
    """Short ones cost 1 on the dear and 0.5 on the cheap, long ones 4 and 16: $12 buy 3 long-and-short pairs a second,
    at 3 * 4 + 1 * 0.5 dollars each."""
    cluster = Cluster((DEAR, CHEAP), budget_usd_per_hour=12.0)
    found = factor_bound([work([[1.0, 4.0], [0.5, 16.0]], "dear", "cheap")], cluster, 1.0)
    assert found == pytest.approx(12.0 / 12.5)


@pytest.mark.parametrize("seed", range(8))
def test_no_deployment_of_whole_replicas_passes_the_bound(seed: int) -> None:
    """Enumerated: every number of replicas within the budget, each with its own best shares of the sizes."""
    rng = np.random.default_rng(seed)
    seconds = (
        rng.uniform(0.2, 2.0, (2, 1)) + rng.uniform(0.1, 2.0, (2, 1)) * rng.exponential(size=6)
    ).tolist()
    cluster = Cluster((DEAR, CHEAP), budget_usd_per_hour=float(rng.uniform(4.0, 14.0)))
    bound = factor_bound([work(seconds, "dear", "cheap")], cluster, 10.0)
    best = 0.0
    for dear, cheap in product(range(5), range(9)):
        if 3.0 * dear + cheap <= (cluster.budget_usd_per_hour or 0.0) and dear + cheap:
            pools = tuple(replace(p, nodes=n) for p, n in ((DEAR, dear), (CHEAP, cheap)))
            here = factor_bound([work(seconds, "dear", "cheap")], Cluster(pools), 10.0)
            assert here == pytest.approx(_by_hand(seconds, dear, cheap, 10.0), rel=1e-6)
            best = max(best, here)
    assert 0 < best <= bound * (1 + 1e-9)


def _by_hand(seconds: list[list[float]], dear: int, cheap: int, period_s: float) -> float:
    """The best split of sizes between two kinds: by their ratio of seconds, one of them shared."""
    a, b = np.array(seconds)
    order = np.argsort(a / b)
    a, b = a[order], b[order]
    if not dear or not cheap:
        return period_s * dear / a.sum() if dear else period_s * cheap / b.sum()
    for k in range(len(a)):
        # All before k on the dear kind, a share x of k itself, the rest on the cheap one; both are full.
        low, rest = a[:k].sum(), b[k + 1 :].sum()
        x = (dear * (rest + b[k]) - cheap * low) / (cheap * a[k] + dear * b[k])
        if 0 <= x <= 1:
            return period_s * dear / (low + x * a[k])
    return period_s * (dear / a.sum() if dear * b.sum() < cheap * a.sum() else cheap / b.sum())


def test_what_replicas_sustain_when_simulated_is_below_the_bound_and_near_it() -> None:
    made = problem((SMALL, MEDIUM), pools=(Pool("a", "h100-sxm", 1, 2, 3.0),), trace=traffic(300, 30.0))
    with ThreadPoolExecutor(1) as threads:
        search = start_search(made, routings_of(made)[0], threads)
        load = stage_load(made, 1, np.ones(300, dtype=bool))
        for each in search.shapes[1]:
            most = 1.0 / float(least_s(each.timing, load).mean())
            sustained = sustained_rps(each.timing, load)
            assert sustained <= most
            if each.pp == 1:
                assert most <= 1.1 * sustained
        for routing in (0, len(search.routings) - 1):
            found = most_capable(search, routing)
            bound = rate_bound_rps(search, routing)
            assert found is not None
            assert bound is not None
            assert carried_rps(search, [found]) <= bound


def test_a_spot_pool_counts_for_the_time_that_it_is_there() -> None:
    always = factor_bound([work([[1.0]], "dear")], Cluster((DEAR,)), 10.0)
    part = replace(work([[1.0]], "dear"), shapes=(replace(shape(1, pool="dear"), there=0.75),))
    assert factor_bound([part], Cluster((DEAR,)), 10.0) == pytest.approx(0.75 * always)


def test_a_cluster_far_too_small_for_the_trace_is_asked_for_a_hundredth_of_what_bounds_it() -> None:
    made = problem((SMALL,), trace=traffic(150, 30.0))
    with ThreadPoolExecutor(1) as threads:
        search = start_search(made, routings_of(made)[0], threads)
    # Nothing is known of a cluster where nothing has a bound.
    least = [least_factor(search, bound) for bound in (0.2, 0.8, 5.0, 0.0)]
    assert least == pytest.approx([0.002, 0.008, 0.01, 0.01])

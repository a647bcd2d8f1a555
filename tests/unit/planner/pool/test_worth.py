"""What a dollar buys on each kind of GPU, and the price at which one kind no longer is the cheapest for all."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from cascadia.domain.cluster import Cluster, Pool
from cascadia.planner.plan import routings_of
from cascadia.planner.pool.worth import dominance, dominance_note, worths
from cascadia.planner.search.context import Search, start_search
from cascadia.planner.sensitivity.renting import least_usd
from tests.unit.planner.instances import demand, pool, shape
from tests.unit.planner.problems import MEDIUM, SMALL, problem, traffic

DEAR, CHEAP = Pool("dear", "h100-sxm", 2, 2, 3.0), Pool("cheap", "l40s", 3, 2, 1.0)


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


def searched(threads: ThreadPoolExecutor, cheap_usd: float) -> Search:
    pools = (DEAR, replace(CHEAP, usd_per_gpu_hour=cheap_usd))
    made = problem((SMALL, MEDIUM), pools=pools, trace=traffic(120, 30.0))
    return start_search(made, routings_of(made)[0], threads)


def test_the_price_at_which_a_kind_no_longer_dominates_is_where_it_ends(threads: ThreadPoolExecutor) -> None:
    found = dominance(searched(threads, 2.0), -1)
    assert found is not None
    assert found.pool == "dear"
    ends = found.ends["cheap"]
    assert 0 < ends < 2
    assert dominance(searched(threads, ends * 0.999), -1) is None
    # Kinds count as equal within 2 %: once it was said to end above a price at which it went on.
    for above in (1.001, 1.01, 1.05):
        kept = dominance(searched(threads, ends * above), -1)
        assert kept is not None
        assert kept.ends["cheap"] == pytest.approx(ends)
    (said,) = dominance_note(searched(threads, 2.0), -1)
    assert said.startswith("one type dominates: dear serves every size of request cheapest")
    assert f"until cheap costs less than ${ends:.3g}/h (now $2)" in said


def test_where_none_dominates_it_says_which_serves_which(threads: ThreadPoolExecutor) -> None:
    search = searched(
        threads, (dominance(searched(threads, 2.0), -1) or pytest.fail("none")).ends["cheap"] * 0.95
    )
    (said,) = dominance_note(search, -1)
    assert said.startswith("no GPU type is the cheapest for all requests")
    assert "dear" in said
    assert "cheap" in said


def test_a_dollar_buys_fewer_large_requests_than_small_ones(threads: ThreadPoolExecutor) -> None:
    found = worths(searched(threads, 1.0), -1)
    assert found == sorted(found, key=lambda w: (w.stage, -w.requests_per_usd))
    assert {(w.stage, w.pool) for w in found} == {(s, p) for s in ("s0", "s1") for p in ("dear", "cheap")}
    for w in found:
        assert list(w.by_size) == sorted(w.by_size, reverse=True)
        assert w.by_size[-1] < w.requests_per_usd < w.by_size[0]
    halved = worths(searched(threads, 0.5), -1)
    twice = {(w.stage, w.pool): w.requests_per_usd for w in halved}
    assert twice["s1", "cheap"] == pytest.approx(
        2 * next(w.requests_per_usd for w in found if (w.stage, w.pool) == ("s1", "cheap"))
    )


def test_rent_grows_with_the_rate_by_whole_nodes_until_the_pools_are_full(
    threads: ThreadPoolExecutor,
) -> None:
    search = searched(threads, 1.0)
    demands = search.demands(len(search.routings) - 1)
    costs = [least_usd(demands, search.problem.cluster, factor) for factor in (0.25, 0.5, 1.0, 2.0, 1000.0)]
    assert costs[-1] is None
    paid = [cost for cost in costs if cost is not None]
    assert paid == sorted(paid)
    assert all(cost == pytest.approx(round(cost / 2) * 2) for cost in paid)


def test_rent_is_of_what_stands_on_nodes_and_not_of_gpus_that_no_node_has_together() -> None:
    """Three nodes of three GPUs hold three replicas of two, though nine GPUs would do for four."""
    nodes = replace(pool(3, 3), rent="gpu")
    asked = demand(0, [shape(2)], [[1.0]], gated=False)
    assert least_usd([asked], Cluster((nodes,)), 3.0) == pytest.approx(6.0)
    assert least_usd([asked], Cluster((nodes,)), 3.5) is None


def test_what_costs_nothing_dominates_with_no_price_at_which_that_ends(threads: ThreadPoolExecutor) -> None:
    found = dominance(searched(threads, 0.0), -1)
    assert found is not None
    assert (found.pool, found.ends) == ("cheap", {})
    (said,) = dominance_note(searched(threads, 0.0), -1)
    assert said.endswith("cheap serves every size of request cheapest, latency aside")

"""What lies within Cascadia's reach is never better than its choice, and is reckoned in the same way."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.cluster import Pool
from cascadia.domain.objective import Objective
from cascadia.domain.problem import Problem
from cascadia.planner.baselines import compare
from cascadia.planner.baselines.cascadeserve import cascadeserve
from cascadia.planner.baselines.compare import System, outcome, slo_base_s
from cascadia.planner.baselines.prerouter import SKILL, prerouter
from cascadia.planner.baselines.rivals import alone, served, their_deployments
from cascadia.planner.baselines.single_model import searched, uniform_allocation, uniform_parallelism
from cascadia.planner.plan import plan, routings_of
from cascadia.planner.refinement.alike import deployed_alike
from cascadia.planner.refinement.certified import first_certified
from cascadia.planner.refinement.refine import Effort, Refinement, within_limits
from cascadia.planner.search.context import Search, start_search
from cascadia.planner.search.reference_tables import References
from cascadia.planner.search.throughput import PRECISION, largest_factor, max_rate_rps
from cascadia.planner.tables.packing import fits
from tests.unit.planner.problems import (
    LARGE,
    LEAST,
    MEDIUM,
    SHORT,
    SMALL,
    hosted_judge,
    problem,
    rising_table,
    traffic,
)

pytestmark = pytest.mark.slow

NODES = Pool("h100-sxm", "h100-sxm", 3, 4, 2.5)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def search_of(given: Problem, threads: ThreadPoolExecutor) -> Search:
    return start_search(given, routings_of(given)[0], threads)


@pytest.mark.long
@pytest.mark.parametrize("rate_rps", [150.0])
def test_neither_uniform_parallelism_nor_uniform_allocation_is_faster(
    rate_rps: float, threads: ThreadPoolExecutor
) -> None:
    given = problem((MEDIUM, LARGE), pools=(NODES,), judge=hosted_judge(), trace=traffic(200, rate_rps))
    search = search_of(given, threads)
    ours = searched("cascadia", search, SHORT).best
    assert ours is not None
    for other in (uniform_parallelism(search, SHORT), uniform_allocation(search, SHORT)):
        assert other.best is None or ours.latency_s <= other.best.latency_s


@pytest.mark.long
def test_none_of_what_others_deploy_within_our_reach_is_better_than_ours(
    threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours starts from each, so that hardly any effort of its own is needed for that."""
    given = problem((MEDIUM, LARGE), pools=(NODES,), trace=traffic(150, 40.0))

    def two(search: Search, effort: Effort) -> list[System]:
        return [
            ("uniform parallelism", lambda: uniform_parallelism(search, SHORT)),
            ("cascadeserve", lambda: cascadeserve(search, SHORT)),
        ]

    monkeypatch.setattr(compare, "others", two)
    first, *theirs = compare.compare(search_of(given, threads), LEAST).outcomes
    assert first.name == "cascadia"
    assert [np.isfinite(o.latency_s) for o in theirs] == [True, True]
    assert all(first.latency_s <= o.latency_s for o in theirs)


def test_a_plan_is_level_with_what_its_report_shows_of_others(threads: ThreadPoolExecutor) -> None:
    given = problem((MEDIUM, LARGE), pools=(NODES,), trace=traffic(150, 40.0))
    result = plan(given, effort=LEAST)
    known = {d.key for d in their_deployments(result.search)}
    assert known
    assert known <= {c.deployment.key for c in result.candidates}
    others = [served(result.search), *(alone(result.search, s) for s in range(2))]
    for other in others:
        if other.best is not None and other.quality_lower >= 52.0:
            assert result.fastest.latency_s <= other.best.latency_s


@pytest.mark.long
@pytest.mark.parametrize("models", [(SMALL, MEDIUM, LARGE), (SMALL, MEDIUM)])
def test_cascadeserve_sustains_no_more_than_any_deployment_of_its_routing_does(
    models: tuple[str, ...], threads: ThreadPoolExecutor
) -> None:
    """Its replicas are some of all, and reckoned from the tables of the requests that reach each stage, as all are."""
    search = search_of(problem(models, trace=traffic(300, 30.0)), threads)
    every = np.flatnonzero(search.routings.lower >= 52.0)
    theirs = cascadeserve(search).max_rate_rps
    assert 0 < theirs <= max_rate_rps(search, every) * (1 + 2 * PRECISION)


def test_the_largest_factor_is_found_from_above_and_below() -> None:
    for limit in (0.03, 0.999, 1.0, 700.0):
        assert largest_factor(lambda f, at=limit: f <= at) == pytest.approx(limit, rel=2 * PRECISION)  # type: ignore[misc]
    assert largest_factor(lambda _: False) == 0.0
    assert largest_factor(lambda f: f <= 1e-6) == 0.0


def test_what_equal_parts_deploy_they_also_sustain(threads: ThreadPoolExecutor) -> None:
    """Also where the routings that do best with all GPUs fit into no equal parts of them."""
    given = problem((MEDIUM, LARGE), pools=(NODES,), judge=hosted_judge(), trace=traffic(200, 20.0))
    found = uniform_allocation(search_of(given, threads), SHORT)
    assert found.best is not None
    assert found.max_rate_rps >= given.workload.rate_rps


@pytest.mark.long
@pytest.mark.parametrize("models", [(SMALL, MEDIUM, LARGE)])
def test_just_below_the_largest_rate_there_is_a_plan(
    models: tuple[str, ...], threads: ThreadPoolExecutor
) -> None:
    """Also where no routing seems to be sustained by the tables for all requests, which know whole levels only."""
    given = problem(models, pools=(NODES,), trace=traffic(300, 100.0))
    search = search_of(given, threads)
    most = max_rate_rps(search, np.flatnonzero(search.routings.lower >= 52.0))
    near = problem(models, pools=(NODES,), trace=traffic(300, 0.93 * most))
    assert plan(near, effort=LEAST).plan.predicted.quality.lower >= 52.0


@pytest.mark.long
def test_cascadeserve_leaves_no_gpu_idle_that_a_replica_of_its_would_fit_on(
    threads: ThreadPoolExecutor,
) -> None:
    given = problem((MEDIUM, LARGE), pools=(NODES,), judge=hosted_judge(), trace=traffic(200, 60.0))
    found = cascadeserve(search_of(given, threads)).best
    assert found is not None
    used = [(r.shape, r.count) for _, mix in found.deployment.mixes for r in mix]
    for at, (shape, count) in enumerate(used):
        more = [*used[:at], (shape, count + 1), *used[at + 1 :]]
        assert not fits(NODES, more)


@pytest.mark.parametrize("latency_max_s", [2.0, 3.0, 6.0])
def test_cascadeserve_finds_the_cheapest_of_like_replicas(
    latency_max_s: float, threads: ThreadPoolExecutor
) -> None:
    """It once stopped beside one: a plan of two GPUs was compared with its four."""
    objective = Objective("cost", 0.95, 30.0, latency_max_s)
    search = search_of(problem((MEDIUM,), objective=objective, trace=traffic(200, 25.0)), threads)
    (demand, _), *_ = search.whole_demands()
    every = [
        deployed_alike(0, {0: (shape, n)}) for shape in demand.shapes for n in range(1, 8 // shape.gpus + 1)
    ]
    state = Refinement(search, search.simulator, References(search))
    kept = [c for c in state.simulate(every) if first_certified(state, [c]) is not None]
    cheapest = min(c.usd_per_hour for c in kept if within_limits(search.problem, c))
    found = cascadeserve(search, Effort()).best
    assert found is not None
    assert found.usd_per_hour == cheapest


@pytest.mark.long
def test_cascadeserve_takes_the_pool_that_serves_it_best_and_not_the_largest(
    threads: ThreadPoolExecutor,
) -> None:
    slow, fast = Pool("slow", "l4", 2, 8, 0.7), Pool("fast", "h100-sxm", 1, 8, 2.5)
    both = problem((SMALL, MEDIUM), pools=(slow, fast), trace=traffic(200, 20.0))
    alone = problem((SMALL, MEDIUM), pools=(fast,), trace=traffic(200, 20.0))
    found, of_fast = (cascadeserve(search_of(p, threads)).best for p in (both, alone))
    assert found is not None
    assert of_fast is not None
    assert found.latency_s <= of_fast.latency_s * 1.001


@pytest.mark.long
def test_a_pre_router_serves_each_request_once_and_pays_no_judge(threads: ThreadPoolExecutor) -> None:
    given = problem((SMALL, MEDIUM, LARGE), pools=(NODES,), trace=traffic(300, 60.0))
    search = search_of(given, threads)
    found = prerouter(search, LEAST)
    assert found.best is not None
    assert found.run is not None
    served = np.concatenate([v.requests for v in found.run.stages])
    assert np.array_equal(np.sort(served), np.arange(len(given.workload)))
    assert found.run.verdicts is None
    assert found.max_rate_rps > given.workload.rate_rps
    assert found.quality_lower >= 52.0


@pytest.mark.long
def test_a_skill_that_nobody_measured_is_named(threads: ThreadPoolExecutor) -> None:
    known = rising_table(2)
    foreseen = replace(known, foreseen=np.clip(known.quality + 20, 0, 100))
    for table, said in ((known, f"{SKILL:g}"), (foreseen, "")):
        search = search_of(problem((SMALL, MEDIUM), table=table, trace=traffic(60, 20.0)), threads)
        shown = outcome(search.problem, prerouter(search, LEAST), slo_base_s(search))
        assert bool(said) == bool(shown.assumed)
        assert said in shown.assumed

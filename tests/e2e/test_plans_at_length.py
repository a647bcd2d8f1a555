"""Claims about plans that tests/unit makes of a few cases, made of the others, which take long."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.demo.plan_example import SPEC, SPEC_NAME, write_example
from cascadia.domain.cluster import Cluster
from cascadia.domain.errors import Infeasible
from cascadia.domain.objective import Goal, Objective
from cascadia.domain.problem import Problem
from cascadia.planner.allocation.demand import Replicas
from cascadia.planner.deployment.deployment import deployment
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.plan import plan
from cascadia.planner.pool.largest_rate import for_a_rate
from cascadia.planner.problem.read import read_problem
from cascadia.planner.refinement.refine import Effort
from cascadia.planner.routing.mixtures import bounded
from cascadia.planner.search.context import start_search
from cascadia.planner.stability.certificate import certify
from cascadia.planner.stability.repeats import at_rate
from tests.benchmarks.supersets import best_value
from tests.unit.planner import test_many_stages as many_stages
from tests.unit.planner import test_monotone as monotone
from tests.unit.planner import test_optimality as optimality
from tests.unit.planner import test_shapes_in_plans as shapes
from tests.unit.planner.baselines import test_baselines as baselines
from tests.unit.planner.infeasible import test_infeasible as infeasible
from tests.unit.planner.refinement import test_batch_tokens as batch_tokens
from tests.unit.planner.refinement import test_goals as goals
from tests.unit.planner.refinement import test_mixtures as mixtures
from tests.unit.planner.refinement import test_supersets as supersets
from tests.unit.planner.routing import test_guarantee as guarantee
from tests.unit.planner.routing.random_tables import random_table
from tests.unit.planner.stability import test_stability as stability

LITTLE = Effort(simulated_requests=20_000)
overloaded = pytest.mark.parametrize("given", infeasible.FURTHER.values(), ids=infeasible.FURTHER)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """The first minute of the bundled example on three pools, for least cost within 25 s."""
    folder = tmp_path_factory.mktemp("example")
    write_example(folder)
    spec = yaml.safe_load(SPEC)
    spec["workload"]["max_requests"] = 1000
    spec["objective"] = {"minimize": "cost", "quality_min": 86, "latency_max_s": 25}
    spec["cluster"]["pools"] = [
        {"gpu": gpu, "nodes": 4, "gpus_per_node": 8} for gpu in ("h100-sxm", "l40s", "a100-sxm")
    ]
    (folder / SPEC_NAME).write_text(yaml.safe_dump(spec))
    return read_problem(folder / SPEC_NAME)


def test_of_the_example_a_second_and_a_third_pool_cost_nothing(example: Problem) -> None:
    """Searched as a whole only, they made the plan 6 and 11 % dearer."""
    pools = example.cluster.pools
    usd = [best_value(replace(example, cluster=Cluster(pools[:n])), LITTLE) for n in (1, 2, 3)]
    assert usd[2] <= usd[1] <= usd[0]


@pytest.mark.parametrize("seed", [0, *range(stability.SEEDS.stop, 16)])
def test_every_plan_holds_when_its_trace_is_played_eight_times(seed: int) -> None:
    stability.test_every_plan_holds_when_its_trace_is_played_eight_times(seed)


@overloaded
def test_too_few_gpus_name_a_number_that_is_enough(given: Problem) -> None:
    infeasible.test_too_few_gpus_name_a_number_that_is_enough(given)


@overloaded
def test_the_number_of_gpus_named_is_the_least(given: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    infeasible.test_the_number_of_gpus_named_is_the_least(given, monkeypatch)


@overloaded
def test_a_refusal_asks_for_few_plans(given: Problem) -> None:
    infeasible.test_a_refusal_asks_for_few_plans(given)


@overloaded
def test_too_few_gpus_name_the_best_quality_that_they_sustain(given: Problem) -> None:
    infeasible.test_too_few_gpus_name_the_best_quality_that_they_sustain(given)


def test_a_number_of_gpus_keeps_the_latency_bound_too() -> None:
    given = replace(
        infeasible.FURTHER["two stages"],
        objective=Objective("latency", 0.95, quality_min=58.0, latency_max_s=12.0),
    )
    enough = infeasible.named_pool(given, infeasible.message(given))
    assert plan(infeasible.in_place(given, enough)).plan.predicted.objective_s <= 12.0
    with pytest.raises(Infeasible):
        plan(infeasible.in_place(given, infeasible.smaller(enough)))


@pytest.mark.parametrize("bar", [60.0, 64.0])
def test_nobody_is_worse_off_for_there_being_mixtures(bar: float, monkeypatch: pytest.MonkeyPatch) -> None:
    mixtures.test_nobody_is_worse_off_for_there_being_mixtures(bar, monkeypatch)


@pytest.mark.parametrize("slower", [1.05, 1.5])
def test_both_other_goals_keep_a_bound_between(slower: float) -> None:
    fastest = goals.planned(Objective("latency", 0.95, 52.0)).plan
    goals.test_the_cheapest_plan_keeps_both_bounds(fastest, slower)
    goals.test_the_best_quality_keeps_the_latency_bound(fastest, slower)


@pytest.mark.parametrize(("goal", "seed"), [("latency", 1), ("cost", 2), ("quality", 1)])
def test_a_search_of_batch_tokens_is_never_worse_than_leaving_them(goal: str, seed: int) -> None:
    batch_tokens.test_it_is_never_worse_than_leaving_them(goal, seed)


@pytest.mark.parametrize("seed", range(supersets.CASES, 6))
def test_a_pool_more_never_makes_the_plan_worse(seed: int) -> None:
    supersets.test_a_pool_more_never_makes_the_plan_worse(seed)


def test_neither_uniform_parallelism_nor_uniform_allocation_is_faster_with_little_traffic() -> None:
    with ThreadPoolExecutor(2) as threads:
        baselines.test_neither_uniform_parallelism_nor_uniform_allocation_is_faster(20.0, threads)


@pytest.mark.parametrize("seed", [8, 40])
def test_a_plan_is_within_half_a_percent_of_the_best_of_all_deployments(seed: int) -> None:
    optimality.test_a_plan_is_within_half_a_percent_of_the_best_of_all_deployments(seed)


@pytest.mark.parametrize(("kind", "seed"), [("odd", 23), ("two-pools", 30), ("two-pools", 37)])
def test_so_is_one_where_unequal_replicas_are_best(kind: str, seed: int) -> None:
    optimality.test_so_is_one_where_unequal_replicas_are_best_with_their_shares_enumerated_too(kind, seed)


def test_plans_miss_the_bar_no_more_often_than_promised_with_continuous_scores() -> None:
    guarantee.test_plans_miss_the_bar_no_more_often_than_promised(
        random_table(2, 2_000, seed=4), (54.0, 58.0, 61.0), 200
    )


def test_four_stages_with_fine_scores_are_planned() -> None:
    many_stages.test_two_to_six_stages_with_fine_scores_are_planned(4)


def test_cascades_of_four_stages_are_planned() -> None:
    shapes.test_cascades_of_four_and_five_stages_are_planned(4)


seeds = st.integers(0, 10_000)
busier = st.sampled_from([1.0, 2.0, 4.0, 8.0])
pairs_of_clusters = st.sampled_from([((1, 4), (1, 8)), ((1, 4), (2, 4)), ((1, 3), (2, 3)), ((1, 2), (1, 6))])
FEW = settings(max_examples=4, deadline=None)


@FEW
@given(seeds, busier, st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_a_higher_bar_never_predicts_a_lower_latency(
    seed: int, times_the_traffic: float, at: tuple[float, float]
) -> None:
    monotone.test_a_higher_bar_never_predicts_a_lower_latency(seed, times_the_traffic, at)


@FEW
@given(seeds, busier, pairs_of_clusters)
def test_more_gpus_never_predict_a_higher_latency(
    seed: int, times_the_traffic: float, clusters: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    monotone.test_more_gpus_never_predict_a_higher_latency(seed, times_the_traffic, clusters)


@pytest.mark.parametrize("levels", [1, 5])
@pytest.mark.parametrize(("gpus", "latency_max_s"), [(2, None), (2, 8.0), (3, 8.0)])
def test_no_plan_carries_a_tenth_more_than_the_largest_rate(
    gpus: int, latency_max_s: float | None, levels: int
) -> None:
    """Nor do its own replicas carry a twentieth more."""
    objective = Objective("rate", 0.95, 60.0, latency_max_s)
    asked = mixtures.on_few(gpus, objective, 10.0, levels)
    result = plan(asked, effort=LITTLE)
    search, deployment = result.search, result.chosen.deployment
    decided = search.decisions(deployment.routing)
    shares = search.capacities.shares(search.problem, deployment, decided)
    own = certify(Simulator.of(search.problem), deployment, decided, shares, factor=1.05)
    assert own.why or own.held > 1.0
    more = at_rate(asked, 1.1 * result.plan.predicted.rate_rps / asked.workload.rate_rps)
    with pytest.raises(Infeasible):
        plan(for_a_rate(more), effort=LITTLE)


@pytest.mark.parametrize("goal", ["cost", "latency", "quality"])
@pytest.mark.parametrize("latency_max_s", [None, 8.0])
@pytest.mark.parametrize("rate_rps", [25.0, 35.0, 45.0, 55.0])
def test_what_a_mixture_keeps_is_never_called_infeasible(
    goal: Goal, latency_max_s: float | None, rate_rps: float
) -> None:
    """Every tenth mixture on one GPU for each model."""
    asked = mixtures.on_few(2, Objective(goal, 0.95, 60.0, latency_max_s), rate_rps)
    if _some_mixture_keeps(asked):
        assert plan(asked, effort=LITTLE).plan.predicted.quality.lower >= 60.0


def _some_mixture_keeps(asked: Problem) -> bool:
    found = bounded(asked.quality, 60.0, asked.confidence, asked.seed)
    assert found is not None
    mixed = found[0].take(found[0].lower >= 60.0)
    with ThreadPoolExecutor(2) as threads:
        search = start_search(asked, mixed, threads)
        single = {
            s: (Replicas(next(x for x in search.shapes[s] if x.gpus == 1), 1, 1),) for s in search.shapes
        }
        for k in range(0, len(mixed), 10):
            decided = search.decisions(k)
            here = deployment(k, single)
            shares = search.capacities.shares(asked, here, decided)
            found_ = certify(Simulator.of(asked), here, decided, shares)
            if found_.holds and found_.held <= 1.0:
                return True
    return False

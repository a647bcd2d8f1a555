"""Claims about plans that tests/unit makes of a few cases, made of the others, which take long."""

from dataclasses import replace

import pytest
import yaml

from cascadia.demo.plan_example import SPEC, SPEC_NAME, write_example
from cascadia.domain.cluster import Cluster
from cascadia.domain.errors import Infeasible
from cascadia.domain.objective import Objective
from cascadia.domain.problem import Problem
from cascadia.planner.plan import plan
from cascadia.planner.problem.read import read_problem
from cascadia.planner.refinement.refine import Effort
from tests.benchmarks.supersets import best_value
from tests.unit.planner.infeasible import test_infeasible as infeasible
from tests.unit.planner.refinement import test_mixtures as mixtures
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
def test_the_number_of_gpus_named_is_the_least(given: Problem) -> None:
    infeasible.test_the_number_of_gpus_named_is_the_least(given)


@overloaded
def test_a_refusal_asks_for_few_plans(given: Problem) -> None:
    infeasible.test_a_refusal_asks_for_few_plans(given)


@overloaded
def test_too_few_gpus_name_the_best_quality_that_they_sustain(given: Problem) -> None:
    infeasible.test_too_few_gpus_name_the_best_quality_that_they_sustain(given)


def test_a_number_of_gpus_keeps_the_latency_bound_too() -> None:
    given = replace(
        infeasible.OVERLOADED["two stages"],
        objective=Objective("latency", 0.95, quality_min=58.0, latency_max_s=12.0),
    )
    enough = infeasible.named_pool(given, infeasible.message(given))
    assert plan(infeasible.in_place(given, enough)).plan.predicted.objective_s <= 12.0
    with pytest.raises(Infeasible):
        plan(infeasible.in_place(given, infeasible.smaller(enough)))


@pytest.mark.parametrize("bar", [60.0, 64.0])
def test_nobody_is_worse_off_for_there_being_mixtures(bar: float, monkeypatch: pytest.MonkeyPatch) -> None:
    mixtures.test_nobody_is_worse_off_for_there_being_mixtures(bar, monkeypatch)

"""What limits a plan: the bounds that bind come first, and a lower bar is told of only where it gives something."""

from dataclasses import replace

import pytest

from cascadia.domain.objective import Level
from cascadia.domain.plan import LevelPrediction, Plan
from cascadia.report.data import QualityStep, ReportData
from cascadia.report.limits import Limit, limits
from tests.unit.report.sample import sample_plan


def found(plan: Plan, *steps: QualityStep) -> dict[str, Limit]:
    return {limit.name: limit for limit in limits(ReportData(plan, quality_sensitivity=steps))}


def bar_of(plan: Plan) -> float:
    assert plan.objective.quality_min is not None
    return plan.objective.quality_min


@pytest.mark.parametrize(("above", "binds"), [(0.2, True), (3.0, False)])
def test_quality_binds_within_half_a_point_of_its_bar(above: float, binds: bool) -> None:
    plan = sample_plan()
    quality = replace(plan.predicted.quality, lower=bar_of(plan) + above)
    plan = replace(plan, predicted=replace(plan.predicted, quality=quality))
    limit = found(plan)["Quality"]
    assert limit.binds == binds
    assert limit.text.endswith("is asked for")


@pytest.mark.parametrize(("times", "told"), [(0.5, True), (0.99, False)])
def test_a_lower_bar_is_told_of_where_it_is_faster(times: float, told: bool) -> None:
    plan = sample_plan()
    step = QualityStep(bar_of(plan) - 5, times * plan.predicted.objective_s, {}, 1.0)
    assert ("a quick look finds p95" in found(plan, step)["Quality"].text) == told


def test_gpus_that_are_all_in_use_bind_and_come_before_what_has_room() -> None:
    plan = sample_plan()
    (pool,) = plan.cluster.pools
    full = replace(
        plan, cluster=replace(plan.cluster, pools=(replace(pool, nodes=plan.gpus, gpus_per_node=1),))
    )
    assert found(full)["GPUs"] == Limit("GPUs", f"all {plan.gpus} GPUs are in use", True)
    assert found(plan)["GPUs"] == Limit("GPUs", f"{plan.gpus} of {pool.gpus} GPUs in use", False)
    binding = [limit.binds for limit in limits(ReportData(full))]
    assert binding == sorted(binding, reverse=True)


def test_service_levels_bind_within_a_tenth() -> None:
    plan = sample_plan()
    levels = (Level("ttft", 0.95, 2.0), Level("tpot", 0.5, 0.1))
    reached = (LevelPrediction("ttft", 0.95, 2.0, 1.9, 0.96), LevelPrediction("tpot", 0.5, 0.1, 0.03, 1.0))
    objective = replace(plan.objective, levels=levels)
    plan = replace(plan, objective=objective, predicted=replace(plan.predicted, levels=reached))
    told = {limit.text: limit.binds for limit in limits(ReportData(plan)) if limit.name == "Latency"}
    assert told == {
        "TTFT p95 1.90 s where 2.00 s is allowed": True,
        "TPOT p50 30 ms where 100 ms is allowed": False,
    }


def test_gpus_that_are_rented_one_by_one_are_paid_for_one_by_one() -> None:
    """They were once counted as nodes."""
    plan = sample_plan()
    pools = (replace(plan.cluster.pools[0], rented=5, rent="gpu", usd_per_gpu_hour=2.0),)
    plan = replace(plan, cluster=replace(plan.cluster, pools=pools, budget_usd_per_hour=11.0))
    assert found(plan)["Budget"] == Limit("Budget", "$10.00/h of $11.00/h", True)


def test_a_budget_binds_where_no_further_node_can_be_paid() -> None:
    plan = sample_plan()
    pool = plan.cluster.pools[0]
    pools = (replace(pool, rented=2), *plan.cluster.pools[1:])

    def limit(budget_usd: float) -> Limit:
        cluster = replace(plan.cluster, pools=pools, budget_usd_per_hour=budget_usd)
        return found(replace(plan, cluster=cluster))["Budget"]

    assert limit(2.5 * pool.usd_per_node_hour).binds
    assert not limit(4.0 * pool.usd_per_node_hour).binds

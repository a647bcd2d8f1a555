"""A plan made in several processes is the one that is made in one, and so is all that its report shows."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.cluster import Pool
from cascadia.domain.deadline import Deadline
from cascadia.domain.objective import Objective
from cascadia.planner import plan as planning
from cascadia.planner.baselines.aside import Aside
from cascadia.planner.deployment.simulation import quantile_s
from cascadia.planner.plan import PlanResult, plan, routings_of
from cascadia.planner.search.bilevel import bilevel
from cascadia.planner.search.context import start_search
from cascadia.planner.search.solver import solver
from cascadia.planner.sensitivity.nearby import Sensitivity, sensitivity_of
from tests.unit.planner.problems import LARGE, LEAST, MEDIUM, hosted_judge, problem, traffic

pytestmark = pytest.mark.slow

NODES = Pool("h100-sxm", "h100-sxm", 3, 4, 2.5)
GOALS = {"latency": Objective("latency", 0.95, 52.0, None), "cost": Objective("cost", 0.95, 52.0, 30.0)}


@pytest.mark.long
@pytest.mark.parametrize("goal", GOALS)
def test_processes_change_nothing_of_a_plan_and_its_report(
    goal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "can_fork", lambda: True)
    given = problem(
        (MEDIUM, LARGE),
        pools=(NODES,),
        judge=hosted_judge(),
        trace=traffic(60, 40.0),
        objective=GOALS[goal],
    )
    one, several = (plan(given, effort=LEAST, processes=processes) for processes in (False, True))
    assert several.aside is not None
    assert told(one) == told(several)
    assert [c.deployment.key for c in one.candidates] == [c.deployment.key for c in several.candidates]
    assert shown(sensitivity_of(one)) == shown(sensitivity_of(several))


def told(result: PlanResult) -> object:
    return replace(result.plan, wall_s=0.0), result.notes


def shown(around: Sensitivity) -> object:
    bars = [(b.quality_min, b.best and (b.best.deployment.key, b.best.latency_s)) for b in around.bars]
    rivals = [(r.name, r.latency_s.tolist(), r.quality_lower, r.usd_per_hour) for r in around.rivals]
    assert bars
    assert rivals
    return around.slo_base_s, bars, rivals, np.nan_to_num(around.rates.quantiles_s).tolist()


@pytest.mark.long
def test_others_are_compared_on_the_terms_of_the_search_that_found_the_plan() -> None:
    given = problem((MEDIUM, LARGE), pools=(NODES,), trace=traffic(60, 20.0))
    one = plan(given, effort=LEAST)
    with ThreadPoolExecutor(1) as threads:
        search = start_search(given, routings_of(given)[0], threads)
        aside = Aside(search, Deadline(), Deadline())
        slower = replace(search, problem=replace(given, objective=replace(given.objective, quantile=0.5)))
        loop = bilevel(slower, solver(slower, "columns"), lambda _: None)
        aside.look_around(slower, loop, one.chosen, anew=True)
        assert aside.bars
        assert {r.quantile_s for r in aside.rivals} == {quantile_s(r.latency_s, 0.5) for r in aside.rivals}

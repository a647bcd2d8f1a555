"""Spot prices: being allowed to pay them never makes a plan worse."""

from dataclasses import replace

import pytest

from cascadia.domain.cluster import Cluster, Pool, Spot
from cascadia.domain.deadline import Deadline
from cascadia.domain.errors import Infeasible
from cascadia.domain.objective import Objective
from cascadia.domain.plan import Plan
from cascadia.planner.plan import plan
from cascadia.planner.pool.spot import best_way, on_demand_notes, ways
from tests.unit.planner.plans import a_plan
from tests.unit.planner.pool.test_largest_rate import LITTLE
from tests.unit.planner.problems import SMALL, problem, traffic

POOLS = tuple(Pool(name, "l40s", 2, 1, 1.5) for name in "abcd")


def by_spot(cluster: Cluster) -> str:
    return "".join(pool.name for pool in cluster.pools if pool.on_spot)


def offered(names: str, count: int) -> Cluster:
    spot = Spot(0.5, 24.0)
    return Cluster(tuple(replace(p, spot=spot) if p.name in names else p for p in POOLS[:count]))


def test_each_spot_pool_is_planned_for_on_demand_too() -> None:
    assert [by_spot(way) for way in ways(offered("ab", 3))] == ["ab", "b", "a", ""]
    assert [by_spot(way) for way in ways(offered("abc", 4))] == ["abc", "bc", "ac", "ab", ""]
    never_away = Cluster((replace(POOLS[0], spot=Spot(0.5, 0.0)),))
    assert list(ways(never_away)) == [never_away]


class Made:
    def __init__(self, usd: float, objective_s: float, rate_rps: float) -> None:
        made = a_plan()
        predicted = replace(made.predicted, usd_per_hour=usd, objective_s=objective_s, rate_rps=rate_rps)
        self.plan: Plan = replace(made, predicted=predicted)
        self.fastest_s = objective_s


@pytest.mark.parametrize(
    ("objective", "spot", "on_demand", "better"),
    [
        (Objective("cost"), (2.0, 5.0, 9.0), (3.0, 4.0, 9.0), "spot"),
        (Objective("cost"), (4.0, 5.0, 9.0), (3.0, 6.0, 9.0), "on demand"),
        (Objective("rate"), (1.0, 5.0, 98.9), (3.0, 5.0, 100.0), "spot"),
        (Objective("rate"), (1.0, 5.0, 90.0), (3.0, 5.0, 100.0), "on demand"),
        (Objective("latency", within=0.03), (1.0, 5.1, 9.0), (3.0, 5.0, 9.0), "spot"),
        (Objective("latency", within=0.0), (1.0, 5.1, 9.0), (3.0, 5.0, 9.0), "on demand"),
    ],
)
def test_the_better_way_is_taken_and_of_equals_the_cheaper(
    objective: Objective, spot: tuple[float, float, float], on_demand: tuple[float, float, float], better: str
) -> None:
    cluster = offered("a", 1)
    found = best_way(
        cluster, objective, Deadline(), lambda way, _: Made(*(spot if by_spot(way) else on_demand))
    )
    assert found.plan.predicted.usd_per_hour == (spot if better == "spot" else on_demand)[0]


def test_one_gpu_on_demand_is_taken_where_it_costs_less_than_those_that_stand_in_for_it() -> None:
    pool = Pool("a", "l40s", 8, 1, 1.5, spot=Spot(0.8, 60.0))
    made = problem((SMALL,), pools=(pool,), trace=traffic(40, 45.0), objective=Objective("cost", 0.95, 0.0))
    result = plan(made, effort=LITTLE)
    assert result.plan.predicted.usd_per_hour == 1.5
    assert any(note.startswith("a is rented on demand: ") for note in result.notes)


def test_where_no_way_is_left_the_first_says_why() -> None:
    def refuse(cluster: Cluster, _: Deadline) -> Made:
        raise Infeasible(by_spot(cluster), "")

    with pytest.raises(Infeasible, match=r"\bab\b"):
        best_way(offered("ab", 2), Objective("cost"), Deadline(), refuse)


def test_a_pool_that_is_left_on_demand_is_said_to_have_no_better_plan_found_not_to_be_worse() -> None:
    """In a search cut short the plan by spot may be the better one, unseen."""
    (note,) = on_demand_notes(offered("a", 2), offered("", 2))
    assert note.endswith("no better plan was found so")

"""What holds near capacity is planned though tables know whole levels with something to spare; beyond it nothing is."""

from dataclasses import replace

import pytest

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import Infeasible
from cascadia.domain.objective import Objective
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.stability.certificate import certify
from tests.unit.planner.problems import MEDIUM, SMALL, briefly, problem, rising_table, traffic
from tests.unit.planner.stability.test_stability import alone, at_share

pytestmark = pytest.mark.slow

NEAR = "nothing found; looking near capacity"


@pytest.mark.parametrize("share", [0.96, 0.99])
def test_a_replica_that_is_sent_nearly_all_it_sustains_is_planned(share: float) -> None:
    given, chosen, decided, shares = alone(at_share(share, 600))
    assert certify(Simulator.of(given), chosen, decided, shares).holds
    told: list[str] = []
    found = briefly(given, progress=told.append).plan
    assert NEAR in told
    assert found.predicted.stages[0].load == pytest.approx(share, rel=0.01)
    assert found.stability is not None
    assert found.stability.p95_repeated_s <= 1.25 * found.stability.p95_once_s


def test_what_has_room_to_spare_is_found_without_it() -> None:
    told: list[str] = []
    briefly(alone(at_share(0.8, 600))[0], progress=told.append)
    assert NEAR not in told


def test_what_is_sent_more_than_it_sustains_is_refused_all_the_same() -> None:
    given, chosen, decided, shares = alone(at_share(1.04, 600))
    assert not certify(Simulator.of(given), chosen, decided, shares).holds
    with pytest.raises(Infeasible):
        briefly(given)


def test_what_is_far_beyond_capacity_is_not_searched_twice() -> None:
    given = alone(at_share(0.8, 600))[0]
    thrice = replace(given.workload, arrival_s=given.workload.arrival_s / 3)
    told: list[str] = []
    with pytest.raises(Infeasible):
        briefly(replace(given, workload=thrice), progress=told.append)
    assert NEAR not in told


LARGE_AND_SMALL = Pool("large", "h100-sxm", 1, 1, 3.0), Pool("small", "a100-sxm", 1, 1, 1.2)
THREE = (Pool("a", "l40s", 1, 3, 1.0),)


@pytest.mark.long
@pytest.mark.parametrize(
    ("pools", "asked", "rate_rps", "best"),
    [
        (LARGE_AND_SMALL, Objective("cost", 0.95, 58.0), 20.0, 1.2),
        (LARGE_AND_SMALL, Objective("quality", 0.95, None, 30.0), 60.0, -75.0),
        (THREE, Objective("quality", 0.95, None, 30.0), 60.0, -67.2),
    ],
    ids=["cost on two pools", "quality on two pools", "quality on one"],
)
def test_what_just_holds_is_found_where_something_worse_has_room_to_spare(
    pools: tuple[Pool, ...], asked: Objective, rate_rps: float, best: float
) -> None:
    """Enumeration has these; planning told $3 an hour, and qualities of 67.6 and 53.4."""
    table = rising_table(2, levels=3)
    given = problem((SMALL, MEDIUM), pools=pools, objective=asked, table=table, trace=traffic(200, rate_rps))
    predicted = briefly(given).plan.predicted
    found = predicted.usd_per_hour if asked.goal == "cost" else -predicted.quality.lower
    assert found <= best


@pytest.mark.long
def test_a_bar_is_kept_where_quality_is_sought_too() -> None:
    """Bands of routings begin below it: a plan of 55 was given for a bar of 67."""
    given = problem(
        (SMALL, MEDIUM),
        pools=THREE,
        objective=Objective("quality", 0.95, 67.0, 30.0),
        table=rising_table(2, levels=3),
        trace=traffic(200, 60.0),
    )
    assert briefly(given).plan.predicted.quality.lower >= 67.0

"""What holds near capacity is planned though tables know whole levels with something to spare; beyond it nothing is."""

from dataclasses import replace

import pytest

from cascadia.domain.errors import Infeasible
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.plan import plan
from cascadia.planner.stability.certificate import certify
from tests.unit.planner.stability.test_stability import alone, at_share

pytestmark = pytest.mark.slow

NEAR = "nothing found; looking near capacity"


@pytest.mark.parametrize("share", [0.96, 0.99])
def test_a_replica_that_is_sent_nearly_all_it_sustains_is_planned(share: float) -> None:
    given, chosen, decided, shares = alone(at_share(share, 600))
    assert certify(Simulator.of(given), chosen, decided, shares).holds
    told: list[str] = []
    found = plan(given, progress=told.append).plan
    assert NEAR in told
    assert found.predicted.stages[0].load == pytest.approx(share, rel=0.01)
    assert found.stability is not None
    assert found.stability.p95_repeated_s <= 1.25 * found.stability.p95_once_s


def test_what_has_room_to_spare_is_found_without_it() -> None:
    told: list[str] = []
    plan(alone(at_share(0.8, 600))[0], progress=told.append)
    assert NEAR not in told


def test_what_is_sent_more_than_it_sustains_is_refused_all_the_same() -> None:
    given, chosen, decided, shares = alone(at_share(1.04, 600))
    assert not certify(Simulator.of(given), chosen, decided, shares).holds
    with pytest.raises(Infeasible):
        plan(given)


def test_what_is_far_beyond_capacity_is_not_searched_twice() -> None:
    given = alone(at_share(0.8, 600))[0]
    thrice = replace(given.workload, arrival_s=given.workload.arrival_s / 3)
    told: list[str] = []
    with pytest.raises(Infeasible):
        plan(replace(given, workload=thrice), progress=told.append)
    assert NEAR not in told

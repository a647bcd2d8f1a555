"""What costs more than a plan that is known to hold is not simulated, and nothing cheaper is lost by that."""

from dataclasses import replace

import pytest

from cascadia.domain.cluster import Pool
from cascadia.domain.objective import Objective
from cascadia.domain.problem import Judge
from cascadia.planner.deployment.fewer import scaled
from cascadia.planner.plan import PlanResult
from cascadia.planner.refinement.certified import Ceiling
from cascadia.planner.refinement.refine import Effort
from cascadia.planner.refinement.state import Refinement
from tests.unit.planner.problems import (
    EXTERNAL,
    LARGE,
    MEDIUM,
    NODE,
    SMALL,
    briefly,
    hosted_judge,
    problem,
    traffic,
)

pytestmark = pytest.mark.slow

MOST_OF_A_SEARCH = Effort(routings=6, combinations=500, simulated_requests=20_000)
L40S = Pool("l40s", "l40s", 2, 8, 1.1)


def cheapest(
    rate_rps: float,
    latency_max_s: float,
    *,
    bar: float = 56.0,
    pools: tuple[Pool, ...] = (replace(NODE, nodes=3),),
    judge: Judge = EXTERNAL,
) -> PlanResult:
    asked = problem(
        (SMALL, MEDIUM, LARGE),
        pools=pools,
        trace=traffic(300, rate_rps),
        objective=Objective("cost", 0.95, bar, latency_max_s),
        judge=judge,
    )
    return briefly(asked, effort=MOST_OF_A_SEARCH)


CASES = {
    "light": lambda: cheapest(4.0, 10.0),
    "heavy": lambda: cheapest(60.0, 6.0),
    "strict": lambda: cheapest(40.0, 3.0, bar=54.0),
    "two pools": lambda: cheapest(25.0, 8.0, pools=(replace(NODE, nodes=2), L40S)),
    "a judge on its own GPUs": lambda: cheapest(60.0, 10.0, judge=hosted_judge()),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_no_plan_is_dearer_for_what_is_not_simulated(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spared = CASES[name]()
    monkeypatch.setattr(Ceiling, "admits", lambda *_: True)
    whole = CASES[name]()
    assert spared.plan.predicted.usd_per_hour <= whole.plan.predicted.usd_per_hour
    assert len(spared.candidates) <= len(whole.candidates)


@pytest.mark.long
def test_a_search_on_a_large_cluster_is_spared_most_of_its_simulations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spared = cheapest(20.0, 10.0)
    monkeypatch.setattr(Ceiling, "admits", lambda *_: True)
    whole = cheapest(20.0, 10.0)
    assert len(spared.candidates) < len(whole.candidates) / 3


@pytest.mark.long
def test_only_what_is_certified_is_a_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cheapest(20.0, 10.0)
    state = Refinement(found.search, found.search.simulator, found.loop.references)
    ceiling = Ceiling(state)
    dearer = scaled(found.chosen.deployment, 2.0)
    assert found.chosen.certificate is not None
    refused = replace(found.chosen.certificate, why="it is refused")
    with monkeypatch.context() as patch:
        patch.setattr(Refinement, "certified", lambda _, c: replace(c, certificate=refused))
        ceiling.lower([found.chosen])
        assert ceiling.admits(dearer)
    again = Ceiling(state)
    again.lower([found.chosen])
    assert not again.admits(dearer)
    assert again.admits(found.chosen.deployment)

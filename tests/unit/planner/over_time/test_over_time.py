"""A plan's ladder beside single settings and the gears of others, on one trace with spikes."""

import numpy as np
import pytest

from cascadia.cli.compare_over_time import HEADINGS, over_time_json, over_time_rows
from cascadia.planner.over_time import cocktail, systems
from cascadia.planner.over_time.compare import ComparisonOverTime, compare_over_time
from cascadia.planner.over_time.settings import Stage
from cascadia.planner.plan import PlanResult
from tests.unit.planner.gears.test_plan_gears import BOUND_S, plan_for_spikes

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made() -> PlanResult:
    return plan_for_spikes()


@pytest.fixture(scope="module")
def found(made: PlanResult) -> ComparisonOverTime:
    """With one point of each grid."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(systems, "RANGES", (6,))
        patch.setattr(systems, "PERIODS_S", (2.0,))
        patch.setattr(systems, "SHARES", (0.5,))
        patch.setattr(systems, "PLACEMENTS", 1)
        patch.setattr(cocktail, "INTERVALS_S", (60.0,))
        patch.setattr(cocktail, "ROOM", (1.4,))
        return compare_over_time(made)


@pytest.mark.long
def test_ours_is_the_plan_on_its_ladder(made: PlanResult, found: ComparisonOverTime) -> None:
    assert made.ladder is not None
    assert found.bound_s == BOUND_S
    assert found.ours.late == pytest.approx(made.ladder.late)
    assert found.ours.switches == (np.diff(made.ladder.played.gear) != 0).sum() > 0
    assert set(found.ours.setting.tolist()) <= set(made.ladder.routings)


@pytest.mark.long
def test_every_system_answers(found: ComparisonOverTime) -> None:
    named = {beside.name: beside for beside in found.beside}
    assert set(named) == {"single", "dynba", "switching", "cascadeserve", "no switching", "cocktail"}
    assert named["single"].chosen.switches == named["no switching"].chosen.switches == 0
    assert named["switching"].chosen.switches > 0
    assert named["cascadeserve"].chosen.switches > 0


@pytest.mark.long
def test_what_stands_beside_ours_is_as_good_and_no_later(found: ComparisonOverTime) -> None:
    for beside in found.beside:
        if beside.as_good is not None:
            assert beside.as_good.quality >= found.ours.quality - 0.05
        if beside.as_punctual is not None:
            assert beside.as_punctual.late <= found.ours.late + 1e-9


@pytest.mark.long
def test_a_single_setting_with_knowledge_of_the_trace_is_no_better(found: ComparisonOverTime) -> None:
    """By construction: a ladder is no worse than the best of its candidates alone."""
    single = next(beside for beside in found.beside if beside.name == "single")
    assert single.as_good is None or single.as_good.late >= found.ours.late
    assert single.chosen.late > 0.05 or single.chosen.quality <= found.ours.quality + 0.05


@pytest.mark.long
def test_all_gets_a_row_and_an_object(found: ComparisonOverTime) -> None:
    rows = over_time_rows(found)
    assert [len(row) for row in rows] == [len(HEADINGS)] * 7
    document = over_time_json(found)
    assert document["ours"]["late"] == found.ours.late
    assert set(document["systems"]) == {beside.name for beside in found.beside}


@pytest.mark.long
def test_autoscaling_pays_for_what_runs(made: PlanResult) -> None:
    """More room costs more, and is no later."""
    stage = Stage(made.search, made.simulator, BOUND_S)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cocktail, "INTERVALS_S", (60.0,))
        patch.setattr(cocktail, "ROOM", (1.0, 3.0))
        points = cocktail.cocktail(stage)
    for tight, roomy in zip(points[::2], points[1::2], strict=True):
        assert roomy.usd_per_hour >= tight.usd_per_hour
        assert roomy.late <= tight.late + 0.01

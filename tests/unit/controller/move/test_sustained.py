"""What replicas sustain on the way to another plan: more than they are given to do where they have room for it."""

from dataclasses import replace

import pytest

from cascadia.controller.move.state import Desired, Kind, Routing, judge_stage
from cascadia.controller.move.sustained import SUSTAINED, sustained_rps
from cascadia.domain.plan import Plan
from cascadia.testing.plans import prediction, three_stages

SMALL, LARGE = Kind("small", "h100", 1), Kind("large", "h100", 16)
JUDGE = Kind(judge_stage("somebody"), "h100", 1)


def loaded(judge: float | None = None, **loads: float | None) -> Plan:
    plan = three_stages()
    stages = tuple(replace(prediction(stage.name), load=loads.get(stage.name)) for stage in plan.stages)
    return replace(
        plan,
        predicted=replace(plan.predicted, stages=stages, judge=replace(prediction("judge"), load=judge)),
    )


def given(**rps: float) -> Desired:
    kinds = {"small": SMALL, "large": LARGE, "judge": JUDGE}
    counts = {kinds[name]: 1 for name in rps}
    return Desired(counts, Routing((), ()), capacity_rps={kinds[name]: each for name, each in rps.items()})


def test_a_replica_sustains_what_it_has_room_for_and_never_less_than_it_is_given() -> None:
    plan = loaded(small=SUSTAINED / 2, large=0.95)
    assert sustained_rps(plan, given(small=3.0, large=1.5)) == pytest.approx({SMALL: 6.0, LARGE: 1.5})


def test_a_judge_by_any_name_has_the_judges_load() -> None:
    assert sustained_rps(loaded(judge=SUSTAINED / 4), given(judge=2.0)) == pytest.approx({JUDGE: 8.0})


def test_without_a_known_load_replicas_sustain_what_they_are_given() -> None:
    assert sustained_rps(loaded(), given(small=3.0)) == {SMALL: 3.0}
    unknown = loaded()
    no_judge = replace(unknown, predicted=replace(unknown.predicted, judge=None))
    assert sustained_rps(no_judge, given(judge=2.0)) == {JUDGE: 2.0}

"""How far a plan breaks its bounds: nothing where it keeps all, and more the further one is broken."""

from dataclasses import replace

import pytest

from cascadia.controller.decide.misses import GROWS, Misses, missed_quality, misses
from cascadia.domain.objective import Objective
from cascadia.domain.plan import LevelPrediction, Predicted
from cascadia.testing.plans import three_stages

BARS = Objective("cost", quality_min=80.0, latency_max_s=5.0)


def as_predicted(*, quality: float = 85.0, attained: float = 0.97, busiest: float = 0.7) -> Predicted:
    predicted = three_stages().predicted
    level = LevelPrediction("e2e", 0.95, 5.0, reached_s=5.0 if attained >= 0.95 else 6.0, attained=attained)
    return replace(
        predicted,
        quality=replace(predicted.quality, mean=quality),
        levels=(level,),
        stages=tuple(replace(stage, load=busiest) for stage in predicted.stages),
    )


def test_a_plan_that_keeps_all_its_bounds_misses_nothing() -> None:
    assert misses(as_predicted(), BARS, holds=True) == Misses()
    assert misses(as_predicted(quality=float("nan")), BARS, holds=True) == Misses()
    assert misses(as_predicted(quality=10.0), Objective("latency"), holds=True) == Misses()


@pytest.mark.parametrize(
    ("predicted", "holds", "expected"),
    [
        (as_predicted(quality=78.0), True, 0.1),
        (as_predicted(attained=0.65), True, 0.3),
        (as_predicted(busiest=2.0), False, 0.5),
        (as_predicted(busiest=0.9), False, GROWS),
        (as_predicted(quality=78.0, attained=0.65), True, 0.3),
        (as_predicted(quality=0.0, busiest=4.0), False, 1.0),
    ],
)
def test_the_bound_that_is_broken_furthest_counts(predicted: Predicted, holds: bool, expected: float) -> None:
    assert misses(predicted, BARS, holds=holds).most == pytest.approx(expected)


def test_a_level_just_missed_is_missed() -> None:
    level = LevelPrediction("e2e", 0.95, 5.0, reached_s=5.001, attained=0.95)
    assert 0.0 < misses(replace(as_predicted(), levels=(level,)), BARS, holds=True).most < 0.001


def test_of_a_judge_too_what_is_never_served_counts_and_of_an_old_plan_that_a_queue_grows() -> None:
    predicted = as_predicted(busiest=0.7)
    judge = replace(predicted.stages[0], load=4.0)
    assert misses(replace(predicted, judge=judge), BARS, holds=False).load == 0.75
    silent = replace(predicted, judge=None, stages=tuple(replace(s, load=None) for s in predicted.stages))
    assert misses(silent, BARS, holds=False).load == GROWS
    assert misses(replace(silent, stages=()), BARS, holds=False).load == GROWS


def test_wrong_answers_too_many_are_told_as_a_share_of_those_that_may_be() -> None:
    assert [missed_quality(mean, 80.0) for mean in (80.0, 79.0, 70.0, 0.0)] == [0.0, 0.05, 0.5, 1.0]
    assert missed_quality(99.0, 99.5) == 0.5
    assert missed_quality(50.0, None) == 0.0


def test_it_names_the_bound_that_is_broken_furthest() -> None:
    assert str(Misses(quality=0.1, latency=0.25)) == "breaks its bounds: latency by 25 %"

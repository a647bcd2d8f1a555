"""Answers below the bar are told where they surely are, and not where chance alone makes them so."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.controller.detect.quality_watch import MOST, given_scores, shortfall
from cascadia.domain.gear import Gear
from cascadia.domain.objective import Objective
from cascadia.domain.plan import Mixture, Plan
from cascadia.domain.workload import Floats
from cascadia.testing.plans import three_stages
from tests.unit.controller.machine import two_stages

BAR = 80.0
HOURS, AN_HOUR = 168, 300


def promised(*, kinder: float = 0.0) -> Plan:
    """A plan whose judge's scores are `kinder` than the quality that they stand for."""
    plan = two_stages(1, 1)
    quality = replace(plan.predicted.quality, mean=BAR + 1.0)
    predicted = replace(plan.predicted, score_mean=BAR + 1.0 + kinder, quality=quality)
    heavy = Gear(8.0, None, ("small", "large"), (50.0,))
    light = Gear(None, None, ("small",), (50.0,))
    return replace(
        plan, objective=Objective("cost", 0.95, BAR, None), predicted=predicted, gears=(heavy, light)
    )


def answers(mean: float, n: int, seed: int = 0) -> Floats:
    """Scores of both stages; only the large one is good enough."""
    large = np.random.default_rng(seed).normal(mean, 18.0, n)
    return np.column_stack([np.full(n, 40.0), large])


def test_the_answer_is_that_of_the_first_stage_of_its_gear_that_accepts() -> None:
    scores = np.array([[60.0, 90.0], [40.0, 90.0], [40.0, 90.0], [40.0, 90.0], [60.0, 90.0]])
    gear = np.array([0, 0, 1, -1, 7])
    assert given_scores(promised(), gear, scores).tolist() == [60.0, 90.0, 40.0, 90.0, 60.0]


def test_of_several_stages_that_would_accept_the_first_of_its_gear_answers() -> None:
    every = Gear(None, None, ("small", "medium", "large"), (50.0, 60.0))
    plan = replace(three_stages(), gears=(every, Gear(None, None, ("medium", "large"), (0.0, 60.0))))
    scores = np.array([[50.0, 70.0, 90.0], [40.0, 60.0, 90.0], [40.0, 50.0, 90.0], [70.0, 50.0, 30.0]])
    assert given_scores(plan, np.zeros(4, np.int64), scores).tolist() == [50.0, 60.0, 90.0, 70.0]
    assert given_scores(plan, np.ones(4, np.int64), scores).tolist() == [70.0, 60.0, 90.0, 30.0]


@pytest.mark.parametrize(("bar", "blamed"), [(75.1, False), (75.2, True)])
def test_a_plan_is_blamed_for_what_is_more_than_three_standard_errors_and_half_a_point(
    bar: float, blamed: bool
) -> None:
    """Of 400 answers, half at 70 and half at 78, the mean's standard error is 0.2."""
    plan = promised()
    quality = replace(plan.predicted.quality, mean=bar)
    plan = replace(
        plan,
        objective=Objective("cost", 0.95, bar, None),
        predicted=replace(plan.predicted, score_mean=bar, quality=quality),
    )
    large = np.tile([70.0, 78.0], 200)
    told = shortfall(plan, np.zeros(400, np.int64), np.column_stack([np.full(400, 40.0), large]), 200)
    said = f"400 answers score 74.0 ± 0.6, where {bar} stands for the quality of {bar} that was asked"
    assert told == (said if blamed else "")


@pytest.mark.long
def test_alike_answers_at_the_bar_are_hardly_ever_blamed() -> None:
    """Fifty weeks of a plan that is just at its bar, looked at each hour: at most one in four weeks is promised."""
    plan, blamed = promised(), 0
    for week in range(50):
        seen = answers(BAR, HOURS * AN_HOUR, seed=week)
        looks = [seen[max(0, AN_HOUR * hour - MOST) : AN_HOUR * hour] for hour in range(1, HOURS + 1)]
        blamed += any(shortfall(plan, np.zeros(len(look), np.int64), look, 200) for look in looks)
    assert blamed <= 50 / 4


@pytest.mark.parametrize("seed", range(10))
def test_two_points_below_the_bar_are_noticed(seed: int) -> None:
    told = shortfall(promised(), np.zeros(MOST, np.int64), answers(BAR - 2.0, MOST, seed), 200)
    assert told.endswith("where 80.0 stands for the quality of 80 that was asked")


def test_scores_are_taken_as_kindly_as_the_plan_found_them() -> None:
    seen, gear = answers(BAR + 3.0, MOST), np.zeros(MOST, np.int64)
    assert shortfall(promised(), gear, seen, 200) == ""
    assert "85.0 stands for" in shortfall(promised(kinder=5.0), gear, seen, 200)


def test_few_questions_or_no_bar_tell_nothing() -> None:
    seen, gear = answers(BAR - 20.0, 199), np.zeros(199, np.int64)
    assert shortfall(promised(), gear, seen, 200) == ""
    assert shortfall(promised(), gear, seen, 100) != ""
    unbounded = replace(promised(), objective=Objective("cost", 0.95, None, 10.0))
    assert shortfall(unbounded, gear, seen, 100) == ""


def mixed(share: float, *, other: tuple[float, float] = (101.0, 101.0)) -> Plan:
    """Questions go to the small model alone, but a share of them by other thresholds."""
    plan = promised()
    small, large = Gear(None, None, ("small", "large"), (0.0,)), Mixture(share, other[:1], other[1:])
    return replace(plan, thresholds=(0.0,), skip_below=(0.0,), mixture=large, gears=(small,))


@pytest.mark.parametrize("other", [(101.0, 101.0), (50.0, 0.0)])
def test_of_two_routings_that_are_mixed_each_counts_by_its_share(other: tuple[float, float]) -> None:
    """A coin that sent 38 % to the large model was blamed each hour for the answers of the small one alone."""
    plan, turns = mixed(0.25, other=other), np.full(2, -1)
    assert given_scores(plan, turns, np.array([[40.0, 80.0], [44.0, 60.0]])).tolist() == [50.0, 48.0]
    assert shortfall(plan, np.zeros(MOST, np.int64), answers(240.0, MOST), 200) == ""
    assert shortfall(plan, np.zeros(MOST, np.int64), answers(190.0, MOST), 200) != ""


def test_where_stages_are_skipped_for_what_is_foreseen_nothing_is_told() -> None:
    """Evaluations do not say what was foreseen, so not which answers clients had."""
    plan = replace(mixed(0.0), mixture=None)
    seen, gear = answers(BAR, MOST), np.zeros(MOST, np.int64)
    assert shortfall(plan, gear, seen, 200) != ""
    assert shortfall(replace(plan, skip_below=(60.0,)), gear, seen, 200) == ""


def test_scores_are_of_the_answers_whose_quality_is_told_and_not_of_those_that_a_trace_drew() -> None:
    """A trace of 400 requests had drawn questions whose answers scored four points more than the table's: a plan that
    kept its bar was blamed."""
    plan = promised(kinder=4.0)
    quality = replace(plan.predicted.quality, score=BAR + 1.0)
    plan = replace(plan, predicted=replace(plan.predicted, quality=quality))
    gear = np.zeros(MOST, np.int64)
    assert shortfall(promised(kinder=4.0), gear, answers(BAR + 1.0, MOST), 200) != ""
    assert shortfall(plan, gear, answers(BAR + 1.0, MOST), 200) == ""
    assert shortfall(plan, gear, answers(BAR - 2.0, MOST), 200) != ""

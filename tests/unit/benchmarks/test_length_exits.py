"""What exits of a thinking model save and lose, on readings whose answer is known."""

from typing import Any

import pytest

from tests.benchmarks.bench_length_exits import NOBODY, Way, best, boldest, of_some, outcome


def reading(
    *trials: tuple[int, float, bool], right: bool = True, foreseen: dict[int, float] | None = None
) -> dict[str, Any]:
    """Forty tokens of thought; trials at so many tokens, with a score, of five tokens each."""
    return {
        "tokens": 40,
        "right": right,
        "trials": [
            {"at": at, "tokens": 5, "doubt": 1 - score / 100, "right": good} for at, score, good in trials
        ],
        "foreseen": foreseen or {},
    }


BOTH = (0, 16)
ONE = [reading((0, 10.0, False), (16, 90.0, True), foreseen={0: 50.0, 16: 96.0})]


def test_a_trial_that_is_not_good_enough_is_paid_for() -> None:
    assert outcome(ONE, Way(BOTH), 80.0) == (1 - (16 + 5 + 5) / 40, 0.0)
    assert outcome(ONE, Way(BOTH), 95.0) == (1 - (40 + 5 + 5) / 40, 0.0)
    assert outcome(ONE, Way((0,)), 80.0).saved == 1 - 45 / 40


def test_where_nobody_can_leave_nobody_pays() -> None:
    assert outcome(ONE, Way(BOTH), NOBODY) == (0.0, 0.0)


def test_a_budget_that_is_not_chosen_costs_nothing() -> None:
    assert outcome(ONE, Way(BOTH, decides=True), 90.0) == (1 - (16 + 5) / 40, 0.0)
    assert outcome(ONE, Way(BOTH, decides=True), 97.0) == (0.0, 0.0)


def test_no_trial_is_made_where_the_question_promises_little() -> None:
    assert outcome(ONE, Way(BOTH, foreseen=95.0), 80.0).saved == 1 - (16 + 5) / 40
    assert outcome(ONE, Way(BOTH, foreseen=97.0), 80.0).saved == 0.0
    assert outcome([reading((0, 90.0, True))], Way(BOTH, foreseen=1.0), 80.0).saved == 0.0, "not known"


def test_the_boldest_bar_that_loses_nothing_is_taken() -> None:
    rows = [reading((0, 90.0, True)), reading((0, 70.0, True)), reading((0, 50.0, False))]
    assert boldest(rows, Way((0,))) == pytest.approx(70.0)
    assert outcome(rows, Way((0,)), 50.0).lost == 100 / 3
    assert boldest([reading((0, 90.0, False))], Way((0,))) == NOBODY


def test_the_exits_that_save_most_and_lose_nothing_are_taken() -> None:
    rows = [reading((0, 90.0, True), (16, 90.0, True)), reading((0, 80.0, False), (16, 90.0, True))]
    way, bar = best(of_some(BOTH), rows)
    assert (way.budgets, bar) == (BOTH, pytest.approx(90.0))
    assert best([Way((0,)), Way((16,))], rows)[0].budgets == (16,)

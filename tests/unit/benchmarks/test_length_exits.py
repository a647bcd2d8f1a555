"""What exits of a thinking model save and lose, on readings whose answer is known."""

from typing import Any

from tests.benchmarks.bench_length_exits import Way, best, boldest, outcome, where_expected


def reading(*trials: tuple[int, float, bool], right: bool = True) -> dict[str, Any]:
    """Forty tokens of thought; trials at so many tokens, with a doubt, of five tokens each."""
    return {
        "tokens": 40,
        "right": right,
        "trials": [{"at": at, "tokens": 5, "doubt": doubt, "right": good} for at, doubt, good in trials],
    }


def test_a_trial_that_is_not_good_enough_is_paid_for() -> None:
    rows = [reading((0, 0.9, False), (16, 0.1, True))]
    assert outcome(rows, 0.2, (0, 16)) == (1 - (16 + 5 + 5) / 40, 0.0)
    assert outcome(rows, 0.0, (0, 16)) == (1 - (40 + 5 + 5) / 40, 0.0)
    assert outcome(rows, 0.2, (0,)).saved == 1 - 45 / 40


def test_a_budget_that_is_not_chosen_costs_nothing() -> None:
    rows = [reading((0, 0.9, False), (16, 0.1, True))]
    assert outcome(rows, 0.2, (0, 16), tries=False) == (1 - (16 + 5) / 40, 0.0)
    assert outcome(rows, 0.0, (0, 16), tries=False) == (0.0, 0.0)


def test_the_boldest_bar_that_loses_nothing_is_taken() -> None:
    rows = [reading((0, 0.1, True)), reading((0, 0.3, True)), reading((0, 0.5, False))]
    assert boldest(rows, (0,)) == 0.3
    assert outcome(rows, 0.5, (0,)).lost == 100 / 3
    assert boldest([reading((0, 0.1, False))], (0,)) == -1.0


def test_the_way_that_saves_most_and_loses_nothing_is_taken() -> None:
    rows = [reading((0, 0.1, True), (16, 0.1, True)), reading((0, 0.2, False), (16, 0.1, True))]
    way, bar = best([Way(rows, (0,)), Way(rows, (16,))], 2)
    assert (way.budgets, bar) == ((16,), 0.1)


def test_no_trial_is_made_where_the_question_says_no() -> None:
    rows, told = [reading((0, 0.9, False), (16, 0.1, True))], [reading((0, 0.8, False), (16, 0.3, True))]
    assert where_expected(rows, told, 0.5)[0]["trials"] == [rows[0]["trials"][1]]
    assert outcome(where_expected(rows, told, 0.5), 0.2, (0, 16)).saved == 1 - (16 + 5) / 40

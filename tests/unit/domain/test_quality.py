"""Lengths of answers as exits leave them, and what verdicts read of them, by hand."""

import numpy as np
import pytest

from cascadia.domain.points import Exit, Points
from cascadia.domain.quality import Asked, QualityTable, ScoredBy

WHOLE = np.array([[100.0, 200.0], [40.0, 80.0]])
LEFT = np.array([[50.0, 200.0], [10.0, 80.0]])
DRAWN = np.array([[150.0, 300.0], [60.0, 120.0]])
"""Whoever is drawn writes half as much again, trials with it."""


def table(**changes: object) -> QualityTable:
    marks = np.full((2, 2), 50.0)
    fields: dict[str, object] = {"quality": marks, "input_tokens": marks, "output_tokens": LEFT} | changes
    return QualityTable(("p", "q"), ("small", "large"), marks, **fields)  # type: ignore[arg-type]


def test_a_tables_mean_lengths_count_those_that_are_drawn_as_evidence() -> None:
    assert table().mean_tokens.tolist() == [125.0, 45.0]
    assert table(shadow=0.25).mean_tokens.tolist() == [125.0, 45.0]
    drawn = table(drawn_tokens=DRAWN, shadow=0.25)
    assert drawn.mean_tokens.tolist() == [0.75 * 125 + 0.25 * 225, 0.75 * 45 + 0.25 * 90]


def test_without_exits_answers_stay_as_long_as_they_are() -> None:
    whole = np.array([[7, 8, 9]])
    assert table().as_left(whole, np.array([0, 1, 0])) is whole


def test_nobody_is_drawn_where_the_table_has_no_lengths_of_who_is() -> None:
    whole, row = np.array([[10, 10], [8, 8]]), np.array([0, 0])
    assert table(whole_tokens=WHOLE, shadow=0.5).as_left(whole, row).tolist() == [[5, 5], [2, 2]]


def test_exits_shorten_answers_by_the_prompts_own_ratio() -> None:
    """Prompt 0 leaves `small` at a half and `large` at a quarter; prompt 1 never leaves."""
    found = table(whole_tokens=WHOLE).as_left(np.array([[10, 10, 1], [8, 8, 1]]), np.array([0, 1, 0]))
    assert found.tolist() == [[5, 10, 1], [2, 8, 1]]


def test_an_answer_without_a_length_of_its_own_is_not_divided_by_nothing() -> None:
    short = np.array([[0.5, 0.0], [1.0, 1.0]])
    whole, row = np.array([[10, 10], [10, 10]]), np.array([0, 1])
    left = table(whole_tokens=short, output_tokens=short)
    assert left.as_left(whole, row).tolist() == [[5, 1], [10, 10]]
    drawn = table(whole_tokens=short, drawn_tokens=short, shadow=1.0)
    assert drawn.as_left(whole, row).tolist() == [[5, 1], [10, 10]]


@pytest.mark.parametrize(("shadow", "share"), [(0.0, 0.0), (0.25, 0.25), (1.0, 1.0)])
def test_so_many_as_are_drawn_as_evidence_write_their_trials_too(shadow: float, share: float) -> None:
    n = 4000
    made = table(whole_tokens=WHOLE, drawn_tokens=DRAWN, shadow=shadow)
    whole, row = np.full((2, n), 1000), np.zeros(n, np.int64)
    found = made.as_left(whole, row)
    assert set(found[0]) <= {500, 1500}
    assert (found[0] == 1500).mean() == pytest.approx(share, abs=0.03)
    assert (found == made.as_left(whole, row)).all()
    assert 0 < shadow < 1 or not (found != made.as_left(whole, row, seed=1)).any()


ASKED = Asked(
    count=np.array([[1, 2], [3, 4]]),
    part=np.array([[0.5, 0.25], [1.0, 0.75]]),
    trials=np.array([[0, 1], [2, 0]]),
    trial_part=np.array([[0.0, 0.1], [0.2, 0.0]]),
)
DRAWN_ASKED = Asked(10 * ASKED.count, 2 * ASKED.part, 10 * ASKED.trials, 2 * ASKED.trial_part)
"""Whoever is drawn has a trial at every exit."""
ROW = np.array([1, 0, 1])
GATED = np.array([[True, True, False], [False, True, True]])
DRAW = np.array([[True, False, False], [True, False, True]])
WROTE = np.array([[40, 40, 100], [100, 40, 40]])


@pytest.mark.parametrize(
    ("tables", "drawn", "verdicts", "judged"),
    [
        ({}, None, [[1, 1, 0], [0, 1, 1]], WROTE.tolist()),
        ({"verdicts": ASKED}, None, [[2, 1, 1], [0, 3, 4]], [[10, 20, 10], [0, 40, 30]]),
        ({"verdicts": ASKED}, DRAW, [[2, 1, 1], [0, 3, 4]], [[10, 20, 10], [0, 40, 30]]),
        (
            {"verdicts": ASKED, "drawn_verdicts": DRAWN_ASKED},
            None,
            [[2, 1, 1], [0, 3, 4]],
            [[10, 20, 10], [0, 40, 30]],
        ),
        (
            {"verdicts": ASKED, "drawn_verdicts": DRAWN_ASKED},
            DRAW,
            [[20, 1, 1], [0, 3, 40]],
            [[20, 20, 10], [0, 40, 60]],
        ),
    ],
)
def test_a_request_waits_for_the_verdicts_of_its_prompt_its_gate_and_its_draw(
    tables: dict[str, Asked], drawn: np.ndarray | None, verdicts: list[list[int]], judged: list[list[int]]
) -> None:
    made = table(**tables)
    assert made.verdicts_of(ROW, GATED, drawn).tolist() == verdicts
    assert made.judged_of(WROTE, ROW, GATED, drawn).tolist() == judged


def test_of_a_share_of_nothing_nobody_is_drawn_and_draws_follow_the_seed() -> None:
    row = np.zeros(50, np.int64)
    assert table(drawn_tokens=DRAWN).drawn(row) is None
    assert table(shadow=0.5).drawn(row) is None
    made = table(drawn_tokens=DRAWN, shadow=0.5)
    first, again, other = made.drawn(row), made.drawn(row, 0), made.drawn(row, 1)
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.shape == (2, 50)
    assert (first == again).all()
    assert (first != other).any()


def test_a_table_that_says_nothing_of_its_judge_has_scores_of_a_hundred_and_draws_nobody() -> None:
    assert (ScoredBy().scale, table().shadow, len(table())) == (100.0, 0.0, 2)


def test_points_are_each_stages_exits_and_then_itself() -> None:
    made = Points(table(), (0, 0, 1, 2, 2, 2), WHOLE)
    assert [made.rows(stage) for stage in range(3)] == [(0, 1), (2,), (3, 4, 5)]
    assert (made.stages, made.exits) == (3, (0, 3, 4))
    assert Exit(256).row("large") == "large@256"

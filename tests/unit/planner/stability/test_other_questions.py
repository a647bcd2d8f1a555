"""What other questions like the table's would be asked, and how many of them go on."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.planner.plan import routings_of
from cascadia.planner.routing.routings import Mixed, decisions
from cascadia.planner.stability.other_questions import OtherQuestions, alike, visits_of
from tests.unit.planner.account.test_question_range import TRAFFIC, a_table
from tests.unit.planner.problems import problem


def test_the_share_that_goes_on_is_known_as_well_as_a_binomial_tells() -> None:
    for prompts in (100, 400):
        given = problem(table=a_table(prompts), trace=TRAFFIC)
        others = OtherQuestions.of(given)
        hard = given.quality.quality[0] < 50.0
        share = others.means(hard.astype(float))
        own = float(hard[given.workload.row].mean())
        assert share.mean() == pytest.approx(own, abs=0.02)
        # The table's own chance, and that of which of its questions are asked how often.
        assert share.std() == pytest.approx(np.sqrt(own * (1 - own) / prompts), rel=0.25)


def test_rows_are_those_whose_means_were_told() -> None:
    given = problem(table=a_table(100), trace=TRAFFIC)
    others, hard = OtherQuestions.of(given), given.quality.quality[0] < 50.0
    means = others.means(hard.astype(float))
    for draw in (0, 7, others.draws - 1):
        assert hard[others.rows(draw)].mean() == pytest.approx(means[draw])


def test_a_large_table_takes_bounded_time() -> None:
    others = OtherQuestions(0, np.arange(400_000), np.zeros(1, np.int64), np.ones(400_000))
    assert others.draws == 50


def test_nothing_is_told_where_all_go_the_same_way() -> None:
    given = problem(table=a_table(100), trace=TRAFFIC)
    routings, _ = routings_of(given)
    alone = next(k for k in range(len(routings)) if routings.deployed[k].sum() == 1)
    assert alike(given, visits_of(given, routings, [(1.0, alone)]))


def test_in_gears_and_mixtures_a_question_visits_stages_by_the_share_of_each_way() -> None:
    """Half of the requests go by `one`, of which a quarter goes by `two`, as all the others do."""
    given = problem(table=a_table(100), trace=TRAFFIC)
    plain, _ = routings_of(given)
    of = [decisions(given.quality, plain, k).reached.astype(float) for k in range(len(plain))]
    one, two = next(
        (i, j) for i in range(len(of)) for j in range(len(of)) if not np.array_equal(of[i], of[j])
    )
    share = np.where(np.arange(len(plain)) == one, 0.25, 0.0)
    other = plain.take(np.full(len(plain), two))
    mixed = replace(plain, mixed=Mixed(share, other, plain.reached))
    found = visits_of(given, mixed, [(0.5, one), (0.5, two)])
    np.testing.assert_allclose(found, 0.375 * of[one] + 0.625 * of[two])

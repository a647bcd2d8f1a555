"""Agreement is the share of (right, wrong) pairs that the score orders rightly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia_judge.errors import BadVerdict
from cascadia_judge.scores.agreement import agreement


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30))
def test_it_is_the_share_of_pairs_counted_one_by_one(rows: list[tuple[int, bool]]) -> None:
    right = [score for score, is_right in rows if is_right]
    wrong = [score for score, is_right in rows if not is_right]
    found = agreement(np.array([row[0] for row in rows], float), np.array([row[1] for row in rows]))
    if not right or not wrong:
        assert found is None
        return
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in right for b in wrong]
    assert found is not None
    assert found.auc == pytest.approx(sum(pairs) / len(pairs))
    assert (found.right, found.wrong) == (len(right), len(wrong))


def test_the_standard_error_is_that_of_drawing_again() -> None:
    rng = np.random.default_rng(5)
    right = np.arange(120) < 70
    drawn = [agreement(rng.normal(size=120) + 1.0 * right, right) for _ in range(400)]
    aucs = [one.auc for one in drawn if one is not None]
    said = [one.standard_error for one in drawn if one is not None]
    assert np.mean(said) == pytest.approx(np.std(aucs), rel=0.15)


def test_a_perfect_judge_has_auc_1() -> None:
    found = agreement(np.array([1.0, 2.0, 8.0, 9.0]), np.array([False, False, True, True]))
    assert found is not None
    assert (found.auc, found.standard_error) == (1.0, 0.0)


def test_what_does_not_pair_up_is_refused() -> None:
    with pytest.raises(BadVerdict, match="do not pair up"):
        agreement(np.array([1.0]), np.array([True, False]))


def test_the_standard_error_is_hanleys_and_mcneils_to_the_digit() -> None:
    """Five of six pairs are ordered rightly; equation 1 and 2 by hand."""
    found = agreement(np.array([5.0, 4.0, 2.0, 3.0, 1.0]), np.array([True, True, True, False, False]))
    a = 5 / 6
    q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
    variance = (a * (1 - a) + 2 * (q1 - a * a) + 1 * (q2 - a * a)) / 6
    assert found is not None
    assert found == pytest.approx((a, variance**0.5, 3, 2))


def test_tables_do_not_pair_up_though_their_shapes_agree() -> None:
    with pytest.raises(BadVerdict, match="do not pair up"):
        agreement(np.ones((2, 2)), np.ones((2, 2), bool))

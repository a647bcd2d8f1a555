"""A path goes from cautious to bold, and no input leaves later under a bolder setting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia.exits.path import Path, calibrated
from cascadia.exits.readings import exit_of, exits, losses
from tests.unit.exits.streams import stream

PATH = calibrated(stream(3000, 1), 0.01)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_no_input_leaves_later_under_a_bolder_setting(doubts: list[float]) -> None:
    left = [int(exits(np.array([doubts]), row)[0]) for row in PATH.thresholds]
    assert left == sorted(left, reverse=True)
    alone = [exit_of(np.array(doubts), row) for row in PATH.thresholds]
    assert left == [3 if one is None else one for one in alone]


def test_a_setting_exits_where_few_differ() -> None:
    fresh = stream(20_000, 2)
    risks = [losses(fresh, exits(fresh.doubts, row)).mean() for row in PATH.thresholds]
    assert risks[0] < 0.001
    assert 0.02 < risks[-1] < 0.04
    assert np.mean(np.diff(risks) >= -1e-4) > 0.95


def test_at_its_threshold_each_ramp_differs_about_as_often() -> None:
    fresh = stream(300_000, 3)
    row = PATH.thresholds[70]
    near = [np.abs(fresh.doubts[:, k] - row[k]) < 0.3 * row[k] for k in range(3)]
    assert min(at.sum() for at in near) > 1000
    rates = [fresh.wrong[at, k].mean() for k, at in enumerate(near)]
    assert max(rates) < 4 * min(rates)


def test_one_input_is_judged_as_many_are() -> None:
    some = stream(200, 4)
    together = PATH.wrong(some)
    for i in range(len(some)):
        assert (PATH.wrong_of(some.doubts[i], some.wrong[i]) == together[:, i]).all()


def test_a_ramp_that_is_never_wrong_is_left_at_once() -> None:
    some = stream(500, 5)
    right = type(some)(np.repeat(some.final[:, None], 3, axis=1), some.doubts, some.final)
    path = calibrated(right, 0.01)
    assert losses(right, exits(right.doubts, path.thresholds[-1])).sum() == 0
    assert (exits(right.doubts, path.thresholds[-1]) < 3).mean() > 0.9


def test_settings_that_are_not_nested_are_refused() -> None:
    with pytest.raises(ValueError, match="not nested"):
        Path(np.array([[0.2, 0.1], [0.1, 0.2]]))


def test_without_ramps_nothing_leaves() -> None:
    none = Path(np.zeros((2, 0)))
    assert none.wrong_of(np.zeros(0), np.zeros(0, dtype=np.bool_)).tolist() == [False, False]
    assert exits(np.zeros((4, 0)), np.zeros(0)).tolist() == [0, 0, 0, 0]


def test_each_setting_lets_out_about_as_many_more() -> None:
    """From the first few to all that the boldest does: a step is no more than four in a hundred."""
    seen = stream(3000, 1)
    out = np.array([(exits(seen.doubts, row) < 3).mean() for row in PATH.thresholds])
    assert out[0] <= 0.03
    assert (np.diff(out) >= 0).all()
    assert np.diff(out).max() <= 0.04


def test_a_path_knows_what_it_was_calibrated_on() -> None:
    seen = stream(3000, 1)
    assert PATH.inputs == 3000
    assert PATH.differed is not None
    assert PATH.differed.tolist() == PATH.wrong(seen).sum(axis=1).tolist()

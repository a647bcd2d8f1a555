"""One round of Apparate's algorithm 2, branch by branch."""

import numpy as np
import pytest

from cascadia.exits.adjust import Adjusted, Budget, adjust, evenly
from cascadia.exits.greedy import Tuned
from cascadia.exits.readings import Readings
from cascadia.exits.timing import Timing
from cascadia.exits.utility import utilities

TIMING = Timing(1, (1.0,) * 6, (0.1,) * 5)
WIDE = Budget((TIMING,), 1.0)


def window(left: list[int], active: int) -> Readings:
    """Inputs that leave at their ramp, where the threshold is 0.5, and agree."""
    doubts = np.ones((len(left), active))
    for row, at in enumerate(left):
        if at < active:
            doubts[row, at] = 0.1
    final = np.zeros(len(left), dtype=np.int64)
    return Readings(np.zeros(doubts.shape, dtype=np.int64), doubts, final)


def unchanged(active: tuple[int, ...]) -> Tuned:
    """Tuning that finds nothing better."""
    return Tuned(np.full(len(active), 0.5), 0.0, 0.0)


def test_utility_is_what_exits_save_less_what_others_pay() -> None:
    found = utilities(TIMING, (1, 3), np.array([0, 0, 1, 2]))
    assert found.tolist() == pytest.approx([2 * 4.0 - 2 * 0.1, 1 * 2.0 - 1 * 0.1])


def test_ramps_begin_evenly_spaced_as_many_as_the_budget_allows() -> None:
    assert evenly(5, Budget((TIMING,), 0.06)) == (0, 2, 4)
    assert evenly(5, Budget((TIMING,), 0.02)) == (2,)
    assert evenly(5, Budget((TIMING,), 0.01)) == ()


def test_the_budget_holds_at_each_batch() -> None:
    wide_ramps = Timing(16, (2.0,) * 6, (0.5,) * 5)
    assert Budget((TIMING,), 0.02).allows((0,))
    assert not Budget((TIMING, wide_ramps), 0.02).allows((0,))


def test_a_ramp_that_costs_more_than_it_saves_goes() -> None:
    now = Adjusted((0, 3), np.array([0.5, 0.5]))
    seen = window([0] * 10 + [2] * 90, 2)
    # Nothing left at ramp 3, so a bound of no exits promises nothing to any candidate.
    assert adjust(seen, TIMING, now, WIDE, unchanged).active == (0,)


def test_a_candidate_is_bounded_by_what_left_behind_it() -> None:
    """Three of a hundred left at ramp 4, which cost more than that saved; at ramp 2 they would have saved enough."""
    now = Adjusted((0, 4), np.array([0.5, 0.5]))
    changed = adjust(window([0] * 20 + [1] * 5 + [2] * 75, 2), TIMING, now, WIDE, unchanged)
    assert changed.active == (0, 2)
    assert changed.thresholds.tolist() == [0.5, 0.0]


def test_thresholds_that_mend_it_are_taken_instead() -> None:
    now = Adjusted((0, 3), np.array([0.05, 0.5]))
    seen = window([0] * 50 + [1] * 50, 2)
    changed = adjust(seen, TIMING, now, WIDE, lambda active: Tuned(np.array([0.5, 0.5]), 0.7, 0.0))
    assert changed.active == (0, 3)
    assert changed.thresholds.tolist() == [0.5, 0.5]


def test_where_all_pay_an_earlier_ramp_is_tried_before_the_best() -> None:
    now = Adjusted((2, 4), np.array([0.5, 0.5]))
    assert adjust(window([0] * 60 + [1] * 40, 2), TIMING, now, WIDE, unchanged).active == (1, 2, 4)


def test_where_the_budget_is_spent_the_worst_ramp_moves_forward() -> None:
    now = Adjusted((1, 4), np.array([0.5, 0.5]))
    changed = adjust(window([0] * 60 + [1] * 40, 2), TIMING, now, Budget((TIMING,), 0.034), unchanged)
    assert changed.active == (1, 3)


def test_where_none_is_left_ramps_begin_anew() -> None:
    none = Adjusted((), np.zeros(0))
    assert adjust(window([0] * 9, 0), TIMING, none, WIDE, unchanged).active == (0, 1, 2, 3, 4)

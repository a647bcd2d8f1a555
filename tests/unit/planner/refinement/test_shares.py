"""Shares of unequal replicas are stepped from, those of equal ones are left alone."""

from itertools import combinations

from cascadia.planner.allocation.demand import Replicas
from cascadia.planner.deployment.shares import RATIOS, reshared
from tests.unit.planner.instances import shape

ONE, TWO, FOUR = shape(1), shape(2), shape(4)


def test_equal_replicas_have_nothing_to_share_anew() -> None:
    assert list(reshared((Replicas(ONE, 3, 2.0),))) == []


def test_of_two_shapes_the_ratio_of_their_shares_changes_both_ways_and_nothing_else_does() -> None:
    mix = (Replicas(ONE, 1, 4.0), Replicas(TWO, 2, 2.0))
    found = list(reshared(mix))
    ratios = [m[1].level / m[0].level for m in found]
    assert [round(ratio / 0.5, 12) for ratio in ratios] == [round(r, 12) for r in RATIOS]
    assert min(RATIOS) < 1 < max(RATIOS)
    assert all([(r.shape, r.count) for r in m] == [(r.shape, r.count) for r in mix] for m in found)


def test_of_three_shapes_each_share_changes_against_the_others() -> None:
    mix = (Replicas(ONE, 1, 4.0), Replicas(TWO, 1, 2.0), Replicas(FOUR, 1, 1.0))
    changed = [[i for i in range(3) if m[i].level != mix[i].level] for m in reshared(mix)]
    assert changed == [[i] for i in range(3) for _ in RATIOS]
    assert all(a != b for a, b in combinations(list(reshared(mix)), 2))

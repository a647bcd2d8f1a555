"""The filter keeps what no other point dominates, and of equal points the first, however many loads differ."""

import numpy as np
import pytest

from cascadia.planner.routing.dominance import FEW, non_dominated


def by_definition(loads: np.ndarray, total: np.ndarray) -> list[int]:
    """Points that none of the others is as good as in all, better than in one, or before."""

    def dominates(q: int, p: int) -> bool:
        better = total[q] > total[p] or (loads[q] < loads[p]).any()
        return bool(total[q] >= total[p] and (loads[q] <= loads[p]).all() and (better or q < p))

    every = range(len(total))
    return [p for p in every if not any(dominates(q, p) for q in every if q != p)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("values", "loads"),
    [(1, 1), (30, 1), (30, 2), (FEW, 3), (FEW + 4, 3), (3, 4)],
    ids=["all alike", "one load", "two", "three, one of few values", "three", "four"],
)
def test_it_is_what_enumeration_keeps(values: int, loads: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    load = rng.integers(0, 12, (70, loads)).astype(float)
    load[:, 0] = rng.integers(0, values, 70)
    total = rng.integers(0, 9, 70)
    assert non_dominated(load, total).tolist() == by_definition(load, total)


def test_of_no_points_none_is_kept() -> None:
    assert non_dominated(np.zeros((0, 3)), np.zeros(0, np.int64)).tolist() == []

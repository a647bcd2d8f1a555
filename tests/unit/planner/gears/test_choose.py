"""The knapsack over levels of load, held against trying everything."""

from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest

from cascadia.planner.gears.choose import TINY, Choices, choose, falls, hull

SETTINGS, LEVELS = 5, 5


def an_instance(seed: int) -> tuple[Choices, float, int]:
    """Heavier settings are mostly better and later, and lateness mostly rises with load."""
    rng = np.random.default_rng(seed)
    quality = np.sort(rng.uniform(60, 95, SETTINGS))[::-1] + rng.normal(0, 1, SETTINGS)
    load = np.linspace(0.3, 1.6, LEVELS)[None, :] * np.linspace(1.2, 0.4, SETTINGS)[:, None]
    late = np.clip(load**3 * rng.uniform(0.2, 1) + rng.normal(0, 0.02, load.shape), 0, 1)
    weight = rng.dirichlet(np.ones(LEVELS))
    return (
        Choices(quality, late, weight, falls(quality)),
        float(rng.uniform(0.02, 0.3)),
        int(rng.integers(1, LEVELS + 1)),
    )


def chains(choices: Choices, most: int) -> list[tuple[int, ...]]:
    """All along which neither work nor quality rises."""
    every = combinations_with_replacement(range(SETTINGS), LEVELS)
    return [chain for chain in every if len(set(chain)) <= most and falling(choices.value, chain)]


def falling(quality: np.ndarray, chain: tuple[int, ...]) -> bool:
    return all(a == b or quality[b] < quality[a] for a, b in pairwise(chain))


@pytest.mark.parametrize("seed", range(40))
def test_what_is_chosen_is_exact_on_the_hull_and_never_below_it(seed: int) -> None:
    choices, allowed, most = an_instance(seed)
    every = chains(choices, most)
    kept = [c for c in every if choices.late_of(c) <= allowed + TINY]
    on_hull, chosen = hull(choices, allowed, most), choose(choices, allowed, most)
    assert on_hull in every
    assert chosen in every
    if not kept:
        least = min(choices.late_of(c) for c in every)
        assert choices.late_of(chosen) <= least + 1e-6
        return
    assert choices.late_of(chosen) <= allowed + TINY
    points = [(choices.late_of(c), choices.value_of(c)) for c in every]
    vertex = max(point for point in upper_hull(points) if point[0] <= allowed + TINY)
    assert choices.value_of(on_hull) == pytest.approx(vertex[1], abs=1e-6)
    assert choices.value_of(on_hull) <= choices.value_of(chosen)
    assert choices.value_of(chosen) <= max(map(choices.value_of, kept)) + 1e-9


def upper_hull(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """From the least late to the best: what some price of lateness makes the best of all."""
    hull_: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda p: (p[0], -p[1])):
        if hull_ and y <= hull_[-1][1]:
            continue
        while len(hull_) > 1 and _below(hull_[-2], hull_[-1], (x, y)):
            hull_.pop()
        hull_.append((x, y))
    return hull_


def _below(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])


def test_most_of_the_instances_are_solved_to_the_best_of_all() -> None:
    missed = []
    for seed in range(40):
        choices, allowed, most = an_instance(seed)
        kept = [c for c in chains(choices, most) if choices.late_of(c) <= allowed + TINY]
        if kept:
            chosen = choices.value_of(choose(choices, allowed, most))
            missed.append(max(map(choices.value_of, kept)) - chosen)
    assert len(missed) >= 30
    assert np.mean(np.array(missed) < 1e-6) >= 0.7


def test_a_level_that_no_request_meets_is_chosen_so_that_nothing_is_late() -> None:
    quality = np.array([90.0, 80.0, 70.0])
    choices = Choices(
        quality, np.array([[0.0, 3.0], [0.0, 2.0], [0.0, 0.5]]), np.array([1.0, 0.0]), falls(quality)
    )
    assert choose(choices, 0.05, 8) == (0, 2)
    assert choose(choices, 0.05, 1) == (0, 0)

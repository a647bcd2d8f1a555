"""The walk from routings beyond doubt: what it reaches, what it costs, and what happens where there is no beginning."""

from itertools import product

import numpy as np
import pytest

from cascadia.planner.routing.frontier import all_routings, frontier
from cascadia.planner.routing.guarantee import lower_bounds
from cascadia.planner.routing.lattice import PARTS, Lattice
from cascadia.planner.routing.routings import outcomes
from cascadia.planner.routing.walk import SPENT, Draws
from tests.unit.planner.routing.random_tables import random_table, table_of


@pytest.mark.parametrize(("stages", "levels"), [(1, 5), (2, 6), (3, 4), (4, 3)])
def test_every_routing_lies_between_the_nodes_around_it(stages: int, levels: int) -> None:
    table = random_table(stages, 80, seed=stages, levels=levels)
    lattice, routings = Lattice.of(table), all_routings(table)
    above, below = lattice.around(routings)
    higher, lower = lattice.nodes.thresholds[above], lattice.nodes.thresholds[below]
    assert (higher >= routings.thresholds).all()
    assert (lower <= routings.thresholds).all()


def test_with_few_levels_the_lattice_has_all_routings() -> None:
    table = random_table(3, 120, seed=2, levels=6)
    lattice, routings = Lattice.of(table), all_routings(table)
    node = lattice.around(routings)[0]
    assert outcomes(table, lattice.nodes.take(node)) == pytest.approx(outcomes(table, routings))


def test_neighbours_are_a_step_away_in_one_coordinate() -> None:
    lattice = Lattice.of(random_table(3, 50, seed=1, levels=4))
    values = np.random.default_rng(0).random(len(lattice.nodes))
    found = lattice.beside(values).reshape(lattice.shape)
    grid = values.reshape(lattice.shape)
    for i, j in product(*(range(n) for n in lattice.shape)):
        near = [
            grid[a, b] for a, b in product(*(range(n) for n in lattice.shape)) if abs(a - i) + abs(b - j) == 1
        ]
        assert found[i, j] == max(near)


def test_where_levels_are_few_neighbours_lie_along_chords() -> None:
    lattice = Lattice.of(random_table(2, 50, seed=1, levels=3)).chorded()
    grid, inner = len(lattice.nodes), PARTS - 1
    assert lattice.chords.tolist() == [[k, k + 1] for k in range(grid - 1)]
    # The nodes in the order in which one walks them.
    walked = [0]
    for c in range(grid - 1):
        walked += [grid + c * inner + i for i in range(inner)] + [c + 1]
    values = np.random.default_rng(0).random(len(walked))
    found, along = lattice.beside(values), values[walked]
    for at, node in enumerate(walked):
        assert found[node] == max(along[[i for i in (at - 1, at + 1) if 0 <= i < len(walked)]])


def test_two_models_alone_are_joined_beside_the_steps() -> None:
    table = random_table(3, 50, seed=1, levels=4)
    plain, lattice = Lattice.of(table), Lattice.of(table).with_coins()
    last = [n - 1 for n in lattice.shape]
    small, middle, large = (
        int(np.ravel_multi_index(at, lattice.shape)) for at in ((0, 0), (last[0], 0), last)
    )
    assert lattice.chords.tolist() == [[small, middle], [small, large], [middle, large]]
    values = np.random.default_rng(0).random(len(lattice.nodes) + 3 * (PARTS - 1))
    grid, chords = values[: len(lattice.nodes)], values[len(lattice.nodes) :].reshape(3, PARTS - 1)
    expected = plain.beside(grid)
    for node, ends in (
        (small, chords[:2, 0]),
        (middle, [chords[0, -1], chords[2, 0]]),
        (large, chords[1:, -1]),
    ):
        expected[node] = max(expected[node], *ends)
    assert (lattice.beside(values)[: len(grid)] == expected).all()


def test_where_levels_are_many_nothing_is_mixed() -> None:
    lattice = Lattice.of(random_table(3, 2000, seed=1, levels=900))
    assert not lattice.coarse
    assert len(lattice.chorded().chords) == len(lattice.with_coins().chords) == 0


def test_a_rank_lets_no_more_draws_below_than_may_be_missed() -> None:
    rng = np.random.default_rng(5)
    means = (rng.normal(size=(12, 1)) + rng.normal(size=(12, 400))).astype(np.float32)
    nodes = Draws.of(means, 40)
    for counted in (np.ones(12, np.bool_), np.arange(12) < 3, np.arange(12) == 7):
        rank = nodes.rank(counted)

        def below(at: int, counted: np.ndarray = counted) -> int:
            return int((means < nodes.lowest[:, [at]])[counted].any(axis=0).sum())

        assert below(rank) <= SPENT * 40
        assert rank == int(SPENT * 40) or below(rank + 1) > SPENT * 40


def test_where_one_gate_is_walked_down_choosing_costs_next_to_nothing() -> None:
    """A bar far below what the large model has: the walk down one gate's thresholds meets the edge at one node, so its
    bound is hardly below that of a single routing, however many thresholds there are."""
    rng = np.random.default_rng(3)
    hard = rng.normal(size=1_500)
    quality = np.clip(np.stack([60 - 25 * hard, 80 - 8 * hard]) + 6 * rng.normal(size=(2, 1_500)), 0, 100)
    table = table_of(np.clip(quality + 10 * rng.normal(size=quality.shape), 0, 100), quality)
    routings = frontier(table)
    lower, _ = lower_bounds(table, routings, 0.95, seed=1)
    errors = outcomes(table, routings).std(axis=1) / np.sqrt(len(table))
    cascades = (routings.deployed.all(axis=1)) & (routings.mean > 64) & (routings.mean < 74)
    z = ((routings.mean - lower) / errors)[cascades]
    assert cascades.sum() > 200
    assert 1.6 < np.median(z) < 2.0  # one routing alone: 1.645; all contested at once: 2.3 and more

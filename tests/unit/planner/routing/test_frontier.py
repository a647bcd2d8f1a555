"""The frontier holds exactly the routings that no other beats, and says rightly what they do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia.planner.routing import frontier as f
from tests.examples import examples
from tests.unit.planner.routing.random_tables import brute_force, random_table, route, table_of


def points(routings: f.Routings) -> list[tuple[float, ...]]:
    return [
        (*(round(float(r), 6) for r in reached), round(float(mean), 6))
        for reached, mean in zip(routings.reached, routings.mean, strict=True)
    ]


@pytest.mark.parametrize(
    ("stages", "prompts", "levels"), [(1, 9, 4), (2, 14, 6), (3, 12, 5), (4, 8, 3), (5, 6, 2)]
)
@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_brute_force_finds(stages: int, prompts: int, levels: int, seed: int) -> None:
    table = random_table(stages, prompts, seed, levels=levels)
    found = points(f.frontier(table))
    assert len(found) == len(set(found)), "a routing is there twice"
    assert set(found) == brute_force(table)


@given(st.data())
@settings(max_examples=examples(40))
def test_it_is_what_brute_force_finds_on_any_table(data: st.DataObject) -> None:
    stages, prompts = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 6))
    cells = st.lists(st.sampled_from([0, 20, 50, 100]), min_size=prompts, max_size=prompts)
    rows = st.lists(cells, min_size=stages, max_size=stages)
    table = table_of(data.draw(rows), data.draw(rows))
    assert set(points(f.frontier(table))) == brute_force(table)


@pytest.mark.parametrize("seed", range(3))
def test_each_routing_does_what_it_says(seed: int) -> None:
    table = random_table(4, 40, seed)
    routings = f.thin(f.frontier(table), 50)
    for k in range(len(routings)):
        subset = tuple(np.flatnonzero(routings.deployed[k]))
        reached, mean = route(table, subset, tuple(routings.thresholds[k, list(subset[:-1])]))
        assert routings.reached[k] == pytest.approx(reached, abs=1e-12)
        assert routings.mean[k] == pytest.approx(mean, abs=1e-8)
        by = f.answered_by(table, routings, k)
        assert table.quality[by, np.arange(len(table))].mean() == pytest.approx(mean, abs=1e-8)


def test_thresholds_alone_tell_who_answers() -> None:
    table = random_table(4, 60, seed=1)
    routings = f.thin(f.frontier(table), 100)
    for k in range(len(routings)):
        accepted = table.score >= np.append(routings.thresholds[k], f.ACCEPTS_ALL)[:, None]
        assert (accepted.argmax(axis=0) == f.answered_by(table, routings, k)).all()


def test_a_stage_in_the_middle_and_the_first_can_be_left_out() -> None:
    # The middle stage is the worst of all, the first is right on half of the prompts and knows it.
    score = [[100, 100, 0, 0], [0, 0, 0, 0], [100, 100, 100, 90]]
    routings = f.frontier(table_of(score))
    deployed = {tuple(row) for row in routings.deployed.tolist()}
    assert deployed == {(True, False, True), (True, False, False), (False, True, False), (False, False, True)}
    cascade = routings.take(routings.deployed[:, 0] & routings.deployed[:, 2])
    assert cascade.thresholds.tolist() == [[100.0, f.ACCEPTS_NONE]]
    assert cascade.reached.tolist() == [[1.0, 0.0, 0.5]]
    assert cascade.mean.tolist() == [97.5]


def test_the_gate_sees_scores_and_the_mean_is_of_quality() -> None:
    table = table_of([[90, 10], [0, 0]], [[0, 0], [100, 100]])
    both = f.frontier(table).take(f.frontier(table).deployed.all(axis=1))
    assert both.mean.tolist() == [50.0]
    assert both.thresholds.tolist() == [[90.0]]


def test_beyond_the_limit_levels_are_thinned_and_it_says_so() -> None:
    table = random_table(3, 200, seed=5)
    assert f.frontier(table).exact
    some = f.all_routings(table, exact_up_to=1_000, thinned_to=400)
    assert not some.exact
    assert len(some) < 3 + 2 * 199 + 200 + 400
    for k in range(0, len(some), 37):
        by = f.answered_by(table, some, k)
        assert table.quality[by, np.arange(200)].mean() == pytest.approx(some.mean[k], abs=1e-8)


def test_thinning_keeps_the_best_mean_the_stages_alone_and_the_spread() -> None:
    whole = f.frontier(random_table(3, 300, seed=2))
    some = f.thin(whole, 200)
    assert 150 <= len(some) <= 200
    assert some.mean[0] == whole.mean[0]
    assert (some.deployed.sum(axis=1) == 1).sum() == (whole.deployed.sum(axis=1) == 1).sum()
    # Every routing left out has one close by that needs no more than a little more load for its quality.
    for k in range(0, len(whole), 101):
        near = np.abs(some.reached - whole.reached[k]).max(axis=1) < 0.12
        assert (some.mean[near] >= whole.mean[k] - 0.5).any()


def test_thinning_a_small_frontier_changes_nothing() -> None:
    whole = f.frontier(random_table(2, 30, seed=2))
    assert f.thin(whole, len(whole)) is whole


def test_one_stage_has_one_routing() -> None:
    only = f.frontier(table_of([[40, 60]]))
    assert only.mean.tolist() == [50.0]
    assert only.thresholds.shape == (1, 0)
    assert only.reached.tolist() == [[1.0]]

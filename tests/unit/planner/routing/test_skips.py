"""A stage that is skipped by the question alone has neither load nor answer of it; the rest is as without."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from cascadia.domain.quality import QualityTable
from cascadia.planner.routing import frontier as f
from cascadia.planner.routing.guarantee import lower_bounds
from cascadia.planner.routing.routings import outcomes
from tests.examples import examples
from tests.unit.planner.routing.random_tables import beaten_left_out, random_table, route, table_of


def foreseeing(stages: int, prompts: int, seed: int, *, levels: int | None = None) -> QualityTable:
    """What is foreseen is quality with much noise."""
    table = random_table(stages, prompts, seed, levels=levels)
    noise = np.random.default_rng(seed + 1).normal(size=table.quality.shape)
    foreseen = np.clip(table.quality + 30 * noise, 0, 100)
    if levels is not None:
        foreseen = np.round(foreseen * levels / 100) * 100 / levels
    return replace(table, foreseen=foreseen)


def brute_force(table: QualityTable) -> set[tuple[float, ...]]:
    assert table.foreseen is not None
    points = set()
    for size in range(1, len(table.stages) + 1):
        for subset in combinations(range(len(table.stages)), size):
            levels = [[0.0, *np.unique(table.score[gate]), 101.0] for gate in subset[:-1]]
            skips = [[0.0, *np.unique(table.foreseen[gate]), 101.0] for gate in subset[:-1]]
            for thresholds in product(*levels):
                for skip in product(*skips):
                    reached, mean = route(table, subset, thresholds, skip)
                    points.add((*(round(r, 6) for r in reached), round(mean, 6)))
    return beaten_left_out(points)


def points(routings: f.Routings) -> set[tuple[float, ...]]:
    rows = zip(routings.reached, routings.mean, strict=True)
    return {(*(round(float(r), 6) for r in reached), round(float(mean), 6)) for reached, mean in rows}


@pytest.mark.parametrize(("stages", "prompts", "levels"), [(1, 9, 4), (2, 14, 6), (3, 8, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_brute_force_finds(stages: int, prompts: int, levels: int, seed: int) -> None:
    table = foreseeing(stages, prompts, seed, levels=levels)
    found = f.frontier(table)
    assert found.exact
    assert points(found) == brute_force(table)


@given(st.data())
@settings(max_examples=examples(30))
def test_it_is_what_brute_force_finds_on_any_table(data: st.DataObject) -> None:
    stages, prompts = data.draw(st.integers(2, 3)), data.draw(st.integers(1, 5))
    cells = st.lists(st.sampled_from([0, 50, 100]), min_size=prompts, max_size=prompts)
    rows = st.lists(cells, min_size=stages, max_size=stages)
    table = table_of(data.draw(rows), data.draw(rows))
    table = replace(table, foreseen=np.array(data.draw(rows), dtype=np.float64))
    assert points(f.frontier(table)) == brute_force(table)


@pytest.mark.parametrize("seed", range(3))
def test_each_routing_does_what_it_says(seed: int) -> None:
    table = foreseeing(3, 40, seed)
    routings = f.thin(f.frontier(table), 60)
    assert routings.skip_below is not None
    assert (routings.skip_below > 0).any(), "nobody is ever skipped"
    worth = outcomes(table, routings)
    for k in range(len(routings)):
        subset = tuple(np.flatnonzero(routings.deployed[k]))
        gates = list(subset[:-1])
        reached, mean = route(
            table, subset, tuple(routings.thresholds[k, gates]), tuple(routings.skip_below[k, gates])
        )
        assert routings.reached[k] == pytest.approx(reached, abs=1e-12)
        assert routings.mean[k] == pytest.approx(mean, abs=1e-8)
        decided = f.decisions(table, routings, k)
        assert decided.reached.mean(axis=1) == pytest.approx(reached, abs=1e-12)
        by = decided.answered_by
        assert table.quality[by, np.arange(len(table))].mean() == pytest.approx(mean, abs=1e-8)
        assert worth[k].mean() == pytest.approx(mean, abs=1e-4)
        assert ((np.append(routings.skip_below[k], 0) > 0) == decided.foresees.T).all()


def test_what_the_question_tells_saves_the_small_stage_work_at_the_same_quality() -> None:
    # The small stage is right on half of the prompts; the question says which, the score does not.
    right = np.tile([100.0, 0.0], 50)
    table = table_of([np.full(100, 50.0), np.full(100, 50.0)], [right, np.full(100, 100.0)])
    told = replace(table, foreseen=np.vstack([right, right]))
    alike = f.frontier(table)
    assert alike.reached[alike.mean == 100.0].tolist() == [[0.0, 1.0]]
    split = f.frontier(told)
    best = split.take((split.mean == 100.0) & (split.reached[:, 1] < 1.0))
    assert best.reached.tolist() == [[0.5, 0.5]]
    assert best.skip_below is not None
    assert best.skip_below.tolist() == [[100.0]]


def test_many_levels_are_thinned_and_it_says_so() -> None:
    table = foreseeing(3, 300, seed=1)
    some = f.all_routings(table, exact_up_to=3_000, thinned_to=3_000, keep_worse=False)
    assert not some.exact
    assert some.skip_below is not None
    assert len(np.unique(some.skip_below[:, 0])) > 3
    assert len(some) <= 4 * 3_000


@pytest.mark.long
def test_bounds_hold_for_nearly_all_tables_of_a_population() -> None:
    """Of the tables drawn no more choose a routing whose bound lies above its true quality than one time in a thousand
    would where 5 % do."""
    population = foreseeing(2, 20_000, seed=9)
    rng, missed, found, bar = np.random.default_rng(0), 0, 0, 58.0
    drawn = examples(60)
    for seed in range(drawn):
        rows = rng.integers(len(population), size=300)
        table = _rows(population, rows)
        routings = f.thin(f.frontier(table), 400)
        lower, _ = lower_bounds(table, routings, 0.95, seed)
        passing = np.flatnonzero(lower >= bar)
        if len(passing):
            cheapest = passing[np.argmin(routings.reached[passing] @ np.array([1.0, 8.0]))]
            truth = float(outcomes(population, routings.take(np.array([cheapest]))).mean())
            found += 1
            missed += truth < bar
    assert missed <= binom.ppf(0.999, drawn, 0.05)
    assert found > drawn / 2, "a bound that nothing passes proves nothing"


def _rows(table: QualityTable, rows: np.ndarray) -> QualityTable:
    assert table.foreseen is not None
    return replace(table_of(table.score[:, rows], table.quality[:, rows]), foreseen=table.foreseen[:, rows])

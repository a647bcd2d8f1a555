"""Routings over points: what a setting of exits does to each prompt, held against a walk from point to point."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from cascadia.domain.points import Points
from cascadia.domain.quality import QualityTable
from cascadia.planner.problem.join import join
from cascadia.planner.routing.frontier import all_routings, frontier
from cascadia.planner.routing.points import Setting, folded, over_points
from cascadia.planner.routing.routings import ACCEPTS_ALL, ACCEPTS_NONE, decided, outcomes
from cascadia_traces.trace import Trace


def points(seed: int, prompts: int = 12, levels: int = 4) -> Points:
    """Two stages: the first with two exits, the second with one. Trials are of a token and more."""
    rng = np.random.default_rng(seed)
    shape = (5, prompts)
    table = QualityTable(
        tuple(f"p{i}" for i in range(prompts)),
        ("a@10", "a@20", "a", "b@15", "b"),
        np.round(rng.random(shape) * levels) * 100 / levels,
        quality=rng.random(shape) * 100,
        input_tokens=np.full(shape, 7.0),
        output_tokens=np.array([11.0, 21.0, 30.0, 16.0, 40.0])[:, None] + rng.integers(0, 9, shape),
    )
    trials = table.output_tokens - np.array([10.0, 20.0, 0.0, 15.0, 0.0])[:, None]
    trials[[2, 4]] = 0
    return Points(table, (0, 0, 0, 1, 1), trials)


def walked(known: Points, thresholds: list[float], prompt: int) -> tuple[float, list[float], list[int]]:
    """Quality, and tokens written and verdicts asked for at each stage: point by point, token by token."""
    written = [0.0, 0.0]
    thought = [0.0, 0.0]
    verdicts = [0, 0]
    used = [row for row in range(5) if [*thresholds, ACCEPTS_ALL][row] < ACCEPTS_NONE]
    # Behind a point that accepts all nobody comes.
    used = used[: next((i for i, row in enumerate(used) if row < 4 and thresholds[row] <= 0), len(used)) + 1]
    for row in used:
        stage, table = known.stage[row], known.table
        trial = float(known.trial_tokens[row, prompt])
        upto = float(table.output_tokens[row, prompt]) - trial
        written[stage] += upto - thought[stage] + trial
        thought[stage] = upto
        last = row == used[-1]
        gated = not last and stage != known.stage[used[used.index(row) + 1]]
        verdicts[stage] += gated or (row in known.exits and not last)
        if last or table.score[row, prompt] >= thresholds[row]:
            return float(table.quality[row, prompt]), written, verdicts
    raise AssertionError("the last point accepts")


@pytest.mark.parametrize("seed", range(6))
def test_a_setting_gives_each_prompt_what_a_walk_from_point_to_point_gives_it(seed: int) -> None:
    known = points(seed)
    every = all_routings(known.table, thinned_to=400, exact_up_to=400)
    rng = np.random.default_rng(seed)
    for k in rng.choice(len(every), size=60, replace=False).tolist():
        setting = Setting.of(known, every, k)
        table = folded(known, setting)
        deployed = np.array([every.deployed[k, [0, 1, 2]].any(), every.deployed[k, [3, 4]].any()])
        at_end = np.append(every.thresholds[k], ACCEPTS_ALL)[setting.ends[0]]
        decisions = decided(table, deployed, [at_end], None)
        answered, reached = decisions.answered_by, decisions.reached
        for prompt in range(len(table)):
            quality, written, verdicts = walked(known, every.thresholds[k].tolist(), prompt)
            assert table.quality[answered[prompt], prompt] == quality
            assert table.verdicts is not None
            assert np.where(reached[:, prompt], table.output_tokens[:, prompt], 0.0).tolist() == written
            told = table.verdicts_of(np.arange(len(table)), decisions.judged)
            assert np.where(reached, told, 0)[:, prompt].tolist() == verdicts


@pytest.mark.parametrize("seed", range(4))
def test_written_over_points_a_routing_answers_the_same(seed: int) -> None:
    known = points(seed, prompts=40)
    every = frontier(known.table)
    for k in range(0, len(every), max(1, len(every) // 15)):
        setting = Setting.of(known, every, k)
        table = folded(known, setting)
        own = all_routings(table)
        assert np.allclose(outcomes(known.table, over_points(known, own, setting)), outcomes(table, own))
        # The routing itself is one of them.
        assert np.abs(own.mean - every.mean[k]).min() < 1e-6


def test_without_exits_the_table_is_that_of_the_stages() -> None:
    known = points(0)
    table = folded(known, Setting.plain(known))
    assert (table.output_tokens == known.table.output_tokens[[2, 4]]).all()
    assert (table.score == known.table.score[[2, 4]]).all()
    assert table.left is not None
    assert not table.left.any()


def test_the_frontier_over_points_is_that_of_all_their_thresholds() -> None:
    """Brute force: each vector of levels over the points, none of which may beat the frontier in quality and tokens."""
    known = points(3, prompts=6, levels=2)
    known = replace(known, table=replace(known.table, score=np.minimum(known.table.score, 50.0)))
    levels = [0.0, 50.0, ACCEPTS_NONE]
    found = frontier(known.table)
    best = [(found.mean[k], found.reached[k]) for k in range(len(found))]
    vectors = np.array(np.meshgrid(levels, levels, levels, levels)).reshape(4, -1).T
    for vector in vectors.tolist():
        results = [walked(known, vector, prompt) for prompt in range(6)]
        mean = float(np.mean([quality for quality, _, _ in results]))
        tokens = np.sum([written for _, written, _ in results], axis=0)
        assert any(
            quality >= mean - 1e-6 and (_tokens(known, found, k) <= tokens + 1e-6).all()
            for k, (quality, _) in enumerate(best)
        ), vector


def _tokens(known: Points, found: object, k: int) -> np.ndarray:
    thresholds = found.thresholds[k].tolist()  # type: ignore[attr-defined]
    return np.sum([walked(known, thresholds, prompt)[1] for prompt in range(6)], axis=0)


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("lengths", ["trace", "table"])
def test_a_table_with_exits_joins_a_trace_as_planning_shortens_it(
    ids: bool, lengths: Literal["trace", "table"]
) -> None:
    """A replay took lengths from the folded table's own means, by which a stage with exits alone saved nothing."""
    known = points(0)
    plain = folded(known, Setting.plain(known))
    short = folded(known, Setting((30.0, ACCEPTS_NONE, ACCEPTS_NONE, 30.0, ACCEPTS_NONE), (2, 4)))
    named = tuple(f"p{i % 12}" for i in range(40)) if ids else None
    trace = Trace(np.arange(40.0), np.full(40, 9), np.full(40, 200), prompt_id=named)
    whole, left = (join(trace, table, seed=1, lengths=lengths).workload for table in (plain, short))
    assert (left.output_tokens == short.as_left(whole.output_tokens, whole.row)).all()
    assert left.output_tokens.sum() < whole.output_tokens.sum()

"""The coin is no skill at all: its quality lies on the line between two models, and every skill is measured from it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from cascadia.domain.objective import Objective
from cascadia.planner.baselines.coin import coin, tossed
from cascadia.planner.baselines.compare import systems
from cascadia.planner.baselines.single_model import stand_alone
from cascadia.planner.plan import routings_of
from cascadia.planner.refinement.refine import EFFORT
from cascadia.planner.search.context import Search, restricted, start_search
from cascadia.planner.sensitivity.nearby import sensitivity_of
from tests.unit.planner.problems import LARGE, MEDIUM, SHORT, SMALL, briefly, problem, rising_table, traffic

pytestmark = pytest.mark.slow


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def search_of(models: tuple[str, ...], threads: ThreadPoolExecutor, quality_min: float = 52.0) -> Search:
    given = problem(models, trace=traffic(200, 20.0), quality_min=quality_min)
    return start_search(given, routings_of(given)[0], threads)


def test_a_mixture_lies_on_the_line_between_its_models_in_quality_bound_and_load(
    threads: ThreadPoolExecutor,
) -> None:
    search = search_of((SMALL, MEDIUM, LARGE), threads)
    alone = {
        int(row.argmax()): k for k, row in enumerate(search.routings.deployed) if np.count_nonzero(row) == 1
    }
    mixed = tossed(search)
    routings = mixed.routings
    assert {tuple(np.flatnonzero(row)) for row in routings.deployed} == {(0, 1), (0, 2), (1, 2)}
    for k in range(0, len(routings), 7):
        a, b = np.flatnonzero(routings.deployed[k])
        share = routings.reached[k, b]
        for have, of in ((routings.mean, search.routings.mean), (routings.lower, search.routings.lower)):
            on_line = (1 - share) * of[alone[a]] + share * of[alone[b]]
            # Of a table with so many prompts, shares come in steps of one prompt.
            assert have[k] == pytest.approx(on_line, abs=60 / len(search.problem.quality))
        seen = mixed.decisions(k).reached
        assert not (seen[a] & seen[b]).any()
        assert seen[b].mean() == pytest.approx(share, abs=0.12)


@pytest.mark.parametrize("goal", ["latency", "quality"])
def test_where_one_model_alone_is_left_there_is_no_pair_to_draw_from(
    goal: Literal["latency", "quality"], threads: ThreadPoolExecutor
) -> None:
    """As with exits, of whose routings one model alone may beat all others: its report ended in a crash."""
    search = search_of((SMALL, LARGE), threads)
    kept = np.flatnonzero(search.routings.deployed[:, 1])
    few = restricted(search, search.routings.take(kept))
    few = replace(few, problem=replace(few.problem, objective=Objective(goal, 0.95, 52.0)))
    assert (few.routings.deployed.sum(axis=1) == 1).sum() == 1
    found = coin(few, EFFORT)
    assert found.best is None
    assert found.why


def test_of_few_prompts_each_share_sends_some_to_both_models(threads: ThreadPoolExecutor) -> None:
    """Of 25 prompts 2 % are none: a table of no work was then divided by, and `plan --out` ended in a crash."""
    given = problem(
        (SMALL, LARGE), trace=traffic(60, 5.0), table=rising_table(2, prompts=25), quality_min=0.0
    )
    search = start_search(given, routings_of(given)[0], threads)
    mixed = tossed(search)
    assert (mixed.routings.reached > 0).all()
    assert len(mixed.routings) == 24
    assert coin(search, SHORT).best is not None


def test_the_toss_looks_at_no_prompt(threads: ThreadPoolExecutor) -> None:
    """Its correlation with quality is that of chance, and another table of equal size is tossed alike."""
    search = search_of((MEDIUM, LARGE), threads)
    level = tossed(search).problem.quality.foreseen
    assert level is not None
    other = replace(search.problem.quality, quality=search.problem.quality.quality[:, ::-1])
    again = tossed(replace(search, problem=replace(search.problem, quality=other))).problem.quality.foreseen
    assert np.array_equal(level, again)  # type: ignore[arg-type]


def test_the_coin_is_never_better_than_what_reads_the_answers_nor_worse_than_one_model(
    threads: ThreadPoolExecutor,
) -> None:
    search = search_of((SMALL, LARGE), threads)
    tossed_one = coin(search, EFFORT)
    assert tossed_one.best is not None
    assert tossed_one.quality_lower >= 52.0
    assert tossed_one.run is not None
    assert tossed_one.run.verdicts is None
    one = stand_alone(search, 1, EFFORT)
    assert one.best is not None
    assert tossed_one.best.latency_s <= one.best.latency_s * 1.02


def test_one_model_has_no_coin_and_a_bar_beyond_all_is_missed(threads: ThreadPoolExecutor) -> None:
    assert coin(search_of((MEDIUM,), threads), EFFORT).why == "there is but one model"
    assert "misses the bar" in coin(search_of((MEDIUM, LARGE), threads, 99.0), EFFORT).why


@pytest.mark.long
@pytest.mark.parametrize("goal", ["latency", "cost"])
def test_the_report_shows_what_compare_deploys(goal: str) -> None:
    """The models alone that hold the bar, and the coin: to the last digit."""
    limit = None if goal == "latency" else 30.0
    objective = Objective(goal, 0.95, 52.0, limit)  # type: ignore[arg-type]
    result = briefly(problem((MEDIUM, LARGE), trace=traffic(200, 20.0), objective=objective))
    shown = {rival.name: rival for rival in sensitivity_of(result).rivals}
    compared = dict(systems(result.search, EFFORT))
    for theirs, ours in (("stand-alone large", "large alone"), ("coin", "coin")):
        name = (
            next((n for n in compared if n == theirs), None) or f"stand-alone {result.plan.stages[-1].name}"
        )
        entry = compared[name]()
        assert entry.best is not None
        at = shown.get(ours) or shown[f"{result.plan.stages[-1].name} alone"]
        assert (at.quantile_s, at.usd_per_hour) == (entry.best.latency_s, entry.best.usd_per_hour)
        assert (at.quality_mean, at.quality_lower) == (entry.quality_mean, entry.quality_lower)

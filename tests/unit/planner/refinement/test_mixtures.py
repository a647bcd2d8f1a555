"""Mixtures of routings: what they are, what bounds them, and that nobody is worse off for there being mixtures."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cascadia.dispatch.turns import takes_other
from cascadia.domain.cluster import Pool
from cascadia.domain.errors import BadInput
from cascadia.domain.objective import Level, Objective
from cascadia.domain.problem import Problem
from cascadia.files.plan_file import parse_plan, plan_json, write_plan
from cascadia.planner.baselines.coin import coin
from cascadia.planner.baselines.compare import ours
from cascadia.planner.baselines.single_model import searched
from cascadia.planner.plan import PlanResult, open_search, routings_of
from cascadia.planner.refinement import best as ways
from cascadia.planner.refinement.mixed_search import capable, least_quality, mixtures
from cascadia.planner.refinement.refine import rank
from cascadia.planner.replay.replay import gate_decisions, replay
from cascadia.planner.routing.mixtures import coins
from cascadia.planner.routing.routings import Routings
from cascadia.planner.search.context import start_search
from cascadia.report import words
from cascadia_traces.formats.writing import write_trace
from tests.benchmarks.exhaustive import random_problem
from tests.unit.cli.commands import run
from tests.unit.planner.problems import (
    LARGE,
    MEDIUM,
    NODE,
    SHORT,
    SMALL,
    briefly,
    hosted_judge,
    problem,
    quality_table,
    rising_table,
    traffic,
)

pytestmark = pytest.mark.slow


def coarse(quality_min: float = 62.0, *, stages: int = 2, levels: int = 3) -> Problem:
    """A judge of few levels, and cost to be least."""
    models = (SMALL, LARGE) if stages == 2 else (SMALL, MEDIUM, LARGE)
    return problem(
        models,
        judge=hosted_judge(),
        objective=Objective("cost", 0.95, quality_min, 60.0),
        table=rising_table(stages, prompts=400, levels=levels),
        trace=traffic(400, 40.0),
    )


@cache
def planned(quality_min: float) -> PlanResult:
    return briefly(coarse(quality_min))


@pytest.mark.parametrize(("stages", "levels", "bar"), [(2, 3, 62.0), (3, 1, 56.0)])
def test_a_mixture_lies_on_the_line_between_its_routings(stages: int, levels: int, bar: float) -> None:
    given = coarse(bar, stages=stages, levels=levels)
    with ThreadPoolExecutor(2) as threads:
        search = start_search(given, routings_of(given)[0], threads)
        found = mixtures(search, bar)
        assert found is not None
        assert found.mixed is not None
        only = replace(search, routings=found, _decisions={}, memory={})
        for k in range(len(found)):
            decided = only.decisions(k)
            share = float(found.mixed.share[k])
            turns = takes_other(np.arange(len(given.workload)), share)
            assert turns.mean() == pytest.approx(share, abs=0.01)
            # As many verdicts as priced, and as many requests at each stage: to what the draw of rows allows.
            assert decided.reached.mean(axis=1) == pytest.approx(found.reached[k], abs=0.08)
            waits = (decided.reached & decided.judged).mean(axis=1)
            assert waits == pytest.approx(found.verdicts(np.array([k]))[0], abs=0.08)
            assert bar <= found.lower[k] <= found.mean[k]


def test_where_quality_is_sought_mixtures_of_all_qualities_are_looked_at() -> None:
    given = replace(coarse(stages=3, levels=5), objective=Objective("quality", 0.95, None, 60.0))
    with ThreadPoolExecutor(2) as threads:
        search = start_search(given, routings_of(given)[0], threads)
        least, most = 50.0, search.routings.lower.max()
        found = capable(search, least)
    assert found is not None
    assert found.lower.min() >= least
    lower = np.sort(found.lower)
    assert np.diff([least, *lower, most]).max() < (most - least) / 10


def test_who_asks_for_less_may_have_the_coin_of_who_asks_for_more() -> None:
    """Below one half most requests go by the smaller model, and other turns are the larger's: the 95th percentile was
    7.9 s at quality 69, and 5.8 s at 70."""
    given = replace(coarse(), objective=Objective("latency", 0.95, 0.0))
    with ThreadPoolExecutor(2) as threads:
        search = start_search(given, routings_of(given)[0], threads)
        alone = search.routings.lower[(search.routings.reached == [0.0, 1.0]).all(axis=1)].max()
        bars = alone - np.array([2.0, 4.0, 8.0, 16.0])
        each = [coins_by_the_larger(capable(search, bar)) for bar in bars]
    larger = [coins[0] for coins in each]
    assert larger == sorted(larger, reverse=True)
    assert larger[-1] == pytest.approx(0.5, abs=0.01)


def coins_by_the_larger(found: Routings | None) -> list[float]:
    """Shares of the requests that go to the larger model by mixtures without a judge, where most do."""
    assert found is not None
    alone = ~found.judged(np.arange(len(found))).any(axis=1) & (found.thresholds[:, 0] > 100)
    return sorted(found.reached[alone, 1].tolist())


def worth_little(stages: int, quality_min: float) -> Problem:
    """A judge of its own GPUs whose fine scores hardly tell right from wrong, over more questions than a lattice has
    levels."""
    random = np.random.default_rng(0)
    hard, able = random.normal(size=1200), np.linspace(0.0, 1.6, stages)[:, None]
    right = random.random((stages, 1200)) < 1 / (1 + np.exp(-1.5 * (able - hard + 0.3)))
    score = np.clip(50.0 * right + 25 + 40 * random.normal(size=right.shape), 0, 100)
    return problem(
        (SMALL, LARGE) if stages == 2 else (SMALL, MEDIUM, LARGE),
        pools=(replace(NODE, nodes=12),),
        judge=hosted_judge(),
        objective=Objective("cost", 0.95, quality_min, 30.0),
        table=quality_table(score, 100.0 * right),
        trace=traffic(400, 120.0),
    )


@pytest.mark.parametrize(("stages", "bar"), [(2, 62.0), pytest.param(3, 60.0, marks=pytest.mark.long)])
def test_where_scores_are_fine_no_coin_between_two_models_is_cheaper(stages: int, bar: float) -> None:
    """A coin cost $7.50 and $5 an hour, the plans $10 and $7.50: mixtures were looked at where scores have few levels
    alone."""
    found = briefly(worth_little(stages, bar))
    tossed = coin(found.search, SHORT, with_rate=False).best
    assert tossed is not None
    assert found.plan.predicted.usd_per_hour <= tossed.usd_per_hour
    assert found.plan.mixture is not None
    assert found.plan.predicted.quality.lower >= bar


def test_a_coin_s_bound_lies_on_the_line_between_the_models() -> None:
    routings = routings_of(worth_little(3, 60.0))[0]
    found = coins(routings)
    assert found is not None
    mixed, pair = found
    alone = {row.argmax(): k for k, row in enumerate(routings.deployed) if row.sum() == 1}
    assert set(pair.tolist()) == {0, 1, 2}
    for k in range(0, len(mixed), 37):
        a, b = np.flatnonzero(mixed.deployed[k])
        share = mixed.reached[k, b]
        assert share == pytest.approx(1 - mixed.reached[k, a])
        line = (1 - share) * routings.lower[alone[a]] + share * routings.lower[alone[b]]
        assert mixed.lower[k] == pytest.approx(line)
    assert coins(routings.take(np.array([alone[0]]))) is None


def test_models_that_are_equally_good_are_not_mixed_for_the_last_digit_of_a_bound() -> None:
    """The mixture of two models whose answers are all worth 80 had a bound of 77.38057, either alone 77.38056, and so
    both were deployed."""
    given = replace(coarse(), objective=Objective("quality", 0.95, None, 60.0))
    equal = np.full_like(given.quality.score, 80.0)
    given = replace(given, quality=replace(given.quality, score=equal, quality=equal))
    with ThreadPoolExecutor(2) as threads:
        search = start_search(given, routings_of(given)[0], threads)
        best = float(search.routings.lower.max())
        assert capable(search, best - 0.01) is not None
        assert capable(search, least_quality(given.objective, best)) is None


@pytest.mark.long
@pytest.mark.parametrize("bar", [62.0])
def test_nobody_is_worse_off_for_there_being_mixtures(bar: float, monkeypatch: pytest.MonkeyPatch) -> None:
    given = coarse(bar)
    mixed = planned(bar).plan
    with monkeypatch.context() as without:
        without.setattr(ways, "with_mixed", lambda found, *_: found)
        plain = briefly(given).plan
    assert plain.mixture is None
    assert mixed.predicted.usd_per_hour <= plain.predicted.usd_per_hour
    assert mixed.predicted.quality.lower >= bar
    if mixed.mixture is not None:
        assert (mixed.predicted.usd_per_hour, mixed.predicted.objective_s) < (
            plain.predicted.usd_per_hour,
            plain.predicted.objective_s,
        )


@pytest.mark.long
def test_a_looser_bound_costs_no_more_where_only_a_mixture_keeps_the_tighter_one() -> None:
    """Mixtures that are looked for where no routing keeps a bound were not looked for where one does: $10 for $7.5."""
    given = random_problem(0, requests=200)

    def usd(ttft_s: float) -> float:
        bar = given.objective.quality_min
        asked = Objective("cost", 0.95, bar, levels=(Level("ttft", 0.5, ttft_s),))
        return briefly(replace(given, objective=asked)).plan.predicted.usd_per_hour

    assert usd(0.25) <= usd(0.176)


def test_a_written_mixture_is_played_again_as_it_was_planned(tmp_path: Path) -> None:
    result = planned(62.0)
    written = result.plan
    if written.mixture is None:
        pytest.fail("no mixture was planned")
    again = parse_plan(plan_json(written), "plan.json")
    assert again == written
    given, routing = coarse(), result.chosen.deployment.routing
    decided = gate_decisions(again, given.quality, given.workload.row)
    for was, now in zip(result.search.decisions(routing), decided, strict=True):
        assert np.array_equal(was, now)
    drawn = replay(again, traffic(4_000, 40.0), folder=tmp_path)
    for was, now in zip(written.predicted.stages, drawn.predicted.stages, strict=True):
        assert now.reached == pytest.approx(was.reached, abs=0.05)
    assert "mixed" in words.gates(again)
    assert f"{written.mixture.share:.1%}".rstrip("%")[:2] in words.gates(again)
    write_plan(written, tmp_path / "plan.json")
    write_trace(traffic(200, 40.0), tmp_path / "trace.parquet")
    shown = run("simulate", str(tmp_path / "plan.json"), "--trace", str(tmp_path / "trace.parquet"))
    assert "Two routings are mixed" in " ".join(shown.output.split())


def test_the_score_that_is_told_is_of_the_answers_whose_quality_is() -> None:
    plan, table = planned(62.0).plan, coarse().quality
    assert plan.mixture is not None
    assert (plan.thresholds, plan.mixture.thresholds) == ((0.0,), (101.0,)), (
        "a coin, whose score is easily told"
    )
    small, large = table.score.mean(axis=1).tolist()
    assert plan.predicted.quality.score == pytest.approx(small + plan.mixture.share * (large - small))


@pytest.mark.long
def test_compare_plans_with_mixtures_too() -> None:
    given = coarse()
    with open_search(given) as search:
        with_them = ours(search, SHORT)
        without = searched("cascadia", search, SHORT)
    assert with_them.best is not None
    assert without.best is not None
    assert rank(given, with_them.best) < rank(given, without.best)
    assert with_them.max_rate_rps > without.max_rate_rps
    assert with_them.quality_lower >= 62.0


def on_few(gpus: int, objective: Objective, rate_rps: float = 45.0, levels: int = 5) -> Problem:
    """Two models on so few GPUs that routings leave one of them idle."""
    pool = Pool("few", "l40s", 1, gpus, 1.0)
    return problem(
        (SMALL, MEDIUM),
        pools=(pool,),
        objective=objective,
        table=rising_table(2, levels=levels),
        trace=traffic(120, rate_rps),
    )


def test_what_only_a_mixture_keeps_is_planned_and_not_called_infeasible() -> None:
    found = briefly(on_few(2, Objective("latency", 0.95, 60.0))).plan
    assert found.mixture is not None
    assert found.stability is not None
    assert found.predicted.quality.lower >= 60.0


@pytest.mark.long
@pytest.mark.parametrize(
    "given",
    [on_few(2, Objective("latency", 0.95, 60.0)), on_few(2, Objective("cost", 0.95, 60.0, 20.0))],
    ids=["latency", "cost"],
)
def test_compare_shows_what_plan_finds_where_only_a_mixture_keeps_the_bar(given: Problem) -> None:
    with open_search(given) as search:
        shown = ours(search, SHORT)
    best = briefly(given).fastest
    assert shown.best is not None
    assert rank(given, shown.best) == rank(given, best)
    assert shown.max_rate_rps > 0


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("share", 1.5, "mixture.share: is 1.5"),
        ("thresholds", [], "mixture.thresholds: there are 0 for 2 stages"),
        ("skip_below", [], "mixture.skip_below: there are 0 for 2 stages"),
        ("skip_below", [20.0], r"mixture.skip_below\[0\]: is 20; write 0, or 101"),
    ],
)
def test_a_mixture_that_cannot_be_is_refused(key: str, value: object, said: str) -> None:
    written = json.loads(plan_json(planned(62.0).plan))
    written["mixture"][key] = value
    with pytest.raises(BadInput, match=said):
        parse_plan(json.dumps(written), "plan.json")

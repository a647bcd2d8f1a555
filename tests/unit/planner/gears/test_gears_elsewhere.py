"""Plans with gears some of whose stages are somebody else's API: its dollars and its limit count in each of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cascadia.domain.external import External
from cascadia.domain.gear import Shift
from cascadia.domain.objective import Objective, UnderLoad
from cascadia.domain.plan import Plan
from cascadia.domain.problem import Problem
from cascadia.files.plan_file import parse_plan, plan_json
from cascadia.planner.gears.candidates import candidates
from cascadia.planner.gears.ladder import Goals, find_ladder
from cascadia.planner.gears.placement import cheaper_on_gears
from cascadia.planner.over_time import systems
from cascadia.planner.over_time.settings import Stage as OverTimeStage
from cascadia.planner.plan import PlanResult
from cascadia.planner.replay.replay import replay
from cascadia.planner.routing.routings import Mixed
from cascadia.planner.search import elsewhere
from cascadia.render import targets_for
from cascadia.report import tables
from cascadia.router.settings.from_plan import settings_of
from tests.unit.planner.gears.test_plan_gears import STEEP, plan, spiky
from tests.unit.planner.problems import LARGE, ON_ROUTER, SMALL, problem, rising_table
from tests.unit.planner.test_external_stages import API, stage_of

pytestmark = [pytest.mark.slow, pytest.mark.long]

BAR, BOUND_S = 78.0, 8.0
PER_MINUTE = 240


def beside_an_api(objective: Objective, api: External = API) -> Problem:
    """Two models on GPUs, and behind them an API; every minute ten seconds of seven times the load."""
    table = rising_table(3, prompts=400, levels=20, slope=STEEP)
    trace = spiky(240, calm=8.0, spike=60.0)
    given = problem((SMALL, LARGE, LARGE), judge=ON_ROUTER, objective=objective, trace=trace, table=table)
    return replace(given, stages=(*given.stages[:2], stage_of(table.stages[2], api)), gears=8)


@pytest.fixture(scope="module")
def geared() -> PlanResult:
    return plan(beside_an_api(Objective("cost", 0.95, BAR, BOUND_S)))


@pytest.fixture(scope="module")
def alone(geared: PlanResult) -> Plan:
    return plan(replace(geared.search.problem, gears=1)).plan


@pytest.fixture(scope="module")
def limited() -> PlanResult:
    api = replace(API, requests_per_minute=PER_MINUTE)
    return plan(beside_an_api(Objective("quality", 0.95, latency_max_s=4.0), api))


def test_bursts_go_to_the_api_and_replicas_are_for_the_rest(geared: PlanResult, alone: Plan) -> None:
    """One setting has to leave all hard questions to the API, since the GPUs would be too slow in bursts."""
    predicted, gears = geared.plan.predicted, geared.plan.gears
    assert len(gears) > 1
    assert predicted.usd_per_hour < 0.95 * alone.predicted.usd_per_hour
    assert predicted.quality.lower >= BAR
    assert predicted.objective_s <= BOUND_S
    heavy, light = gears[0].predicted, gears[-1].predicted
    assert heavy is not None
    assert light is not None
    assert light.usd_per_1k_elsewhere > heavy.usd_per_1k_elsewhere
    assert heavy.request_share > light.request_share > 0
    assert any("and $" in note and "of tokens keep the bounds" in note for note in geared.notes)


def test_dollars_are_those_of_the_gears_by_their_shares(geared: PlanResult) -> None:
    found, ladder = geared.plan, geared.ladder
    predicted = found.predicted
    assert ladder is not None
    told = [gear.predicted for gear in found.gears if gear.predicted is not None]
    per_1k = sum(p.request_share * (p.usd_per_1k_elsewhere or 0.0) for p in told)
    assert 3.6 * predicted.rate_rps * per_1k == pytest.approx(predicted.usd_per_hour_elsewhere)
    assert predicted.usd_per_hour_elsewhere == pytest.approx(ladder.elsewhere_usd)
    assert predicted.usd_per_hour == pytest.approx(
        geared.chosen.deployment.usd_per_hour + ladder.elsewhere_usd
    )
    table = tables.gears(found)
    assert table is not None
    assert [head.text for head in table.heads][-2:] == ["p95", "APIs, per 1,000"]


def test_no_setting_alone_keeps_the_bounds_for_less_on_these_replicas(geared: PlanResult) -> None:
    search, deployment, ladder = geared.search, geared.chosen.deployment, geared.ladder
    assert ladder is not None
    among = candidates(search, deployment, 0.0, 0.0)
    assert len(among) > 5
    kept = 0
    for routing, usd in zip(among.routings.tolist(), among.usd.tolist(), strict=True):
        assert usd == elsewhere.usd_per_hour(search, routing)
        run = geared.simulator.run(deployment, search.decisions(routing))
        if search.routings.lower[routing] >= BAR and np.mean(run.latency_ps / 1e12 > BOUND_S) <= 0.05:
            kept += 1
            assert usd >= ladder.elsewhere_usd - 1e-6
    assert kept


@pytest.mark.parametrize("which", ["geared", "limited"])
def test_each_request_gets_the_gear_that_the_routers_rule_gives_it(
    which: str, request: pytest.FixtureRequest
) -> None:
    result = request.getfixturevalue(which)
    run, ladder = result.run, result.ladder
    under_way = np.arange(len(run.finish_ps)) - np.searchsorted(np.sort(run.finish_ps), run.arrival_ps)
    shift = Shift(ladder.ladder)
    assert ladder.played.gear.tolist() == [
        shift.arrival(int(met), float(now_ps) * 1e-12)
        for met, now_ps in zip(under_way, run.arrival_ps, strict=True)
    ]


def test_replayed_on_its_own_trace_a_ladder_gives_what_the_plan_predicts(
    geared: PlanResult, tmp_path: Path
) -> None:
    found, known = geared.plan, geared.search.problem
    trace = spiky(240, calm=8.0, spike=60.0)
    shown = replay(parse_plan(plan_json(found), "plan"), trace, folder=tmp_path, table=known.quality)
    assert replace(shown.predicted, quality=found.predicted.quality) == found.predicted
    assert shown.gear is not None
    assert shown.gear.tolist() == geared.ladder.played.gear.tolist()
    assert shown.certificate.holds


def test_a_router_gets_the_gears_and_the_api(geared: PlanResult) -> None:
    found = geared.plan
    own = {
        stage.name: [f"http://127.0.0.1:{8100 + at}"] for at, stage in enumerate(found.stages) if stage.gpus
    }
    own["judge"] = ["http://127.0.0.1:8200"]
    told = settings_of(found, own, "plan.json", environment={"FRONTIER_KEY": "k"})
    assert [gear.stages for gear in told.gears] == [gear.stages for gear in found.gears]
    assert [gear.max_in_flight for gear in told.gears] == [gear.max_in_flight for gear in found.gears]
    assert "https://api.example.com" in [r.url for stage in told.stages for r in stage.replicas]
    assert set(targets_for(found)) == {"compose", "helm-values", "kubernetes", "local"}


def test_a_limit_is_kept_by_all_gears_together_and_in_each_minute(limited: PlanResult) -> None:
    """Light gears leave the API to those who came before; it is used to its limit, which one setting hardly does."""
    found, single = limited.plan, plan(replace(limited.search.problem, gears=1)).plan
    assert len(found.gears) > 1
    assert found.predicted.quality.lower > single.predicted.quality.lower
    load = found.predicted.stages[2].load
    assert load is not None
    assert 0.5 < load <= 1.0
    visits = next(visits for visits in limited.run.stages if visits.stage == 2)
    api = limited.simulator.apis[2]
    assert api is not None
    sent_s = np.sort(visits.run.first_token_ps - api.first_ps[visits.requests]) / 1e12
    assert (sent_s[PER_MINUTE:] - sent_s[:-PER_MINUTE] >= 60.0 - 1e-9).all()


def test_in_time_at_each_level_is_the_cheapest_there(geared: PlanResult) -> None:
    """CascadeServe's rule, where what is paid elsewhere counts."""
    search, own_s = geared.search, geared.run.latency_ps / 1e12
    goals = replace(Goals.of(search.problem, BOUND_S), rule="each-level")
    found = find_ladder(search, geared.simulator, geared.chosen.deployment, own_s, goals)
    if found is not None:
        assert search.routings.lower[list(found.routings)].min() >= BAR
        assert found.elsewhere_usd >= geared.ladder.elsewhere_usd - 1e-6


@pytest.mark.parametrize("floor", [70.0, 50.0])
def test_a_lower_floor_of_single_gears_is_not_dearer(geared: PlanResult, floor: float) -> None:
    """With more to choose from a search of the same length found worse: $30.10 and $30.59 an hour instead of $27.77."""
    lower = plan(replace(geared.search.problem, under_load=UnderLoad(floor))).plan.predicted
    assert lower.usd_per_hour <= geared.plan.predicted.usd_per_hour
    assert lower.quality.lower >= BAR
    assert lower.objective_s <= BOUND_S


def test_a_mixture_that_was_chosen_gets_no_gears_of_its_own(geared: PlanResult) -> None:
    """Where APIs are paid for, what one setting was chosen for is given a ladder too."""
    plain, chosen = geared.search.routings.plain, geared.chosen
    share = np.zeros(len(plain))
    share[chosen.deployment.routing] = 0.5
    search = replace(
        geared.search, routings=replace(plain, mixed=Mixed(share, replace(plain, mixed=None), plain.reached))
    )
    dear = replace(chosen, elsewhere_usd=1_000.0)
    assert cheaper_on_gears(geared.search, [dear], dear, lambda _: None) is not None
    assert cheaper_on_gears(search, [dear], dear, lambda _: None) is None


def test_an_api_that_only_a_light_gear_asks_is_in_the_plan(geared: PlanResult) -> None:
    found = geared.plan
    asked = {name for gear in found.gears for name in gear.stages}
    assert {stage.name for stage in found.stages if stage.deployed} >= asked
    assert found.stages[2].external == API


def test_beside_others_over_the_trace_tokens_are_paid_for_and_an_api_takes_no_part_of_the_gpus(
    geared: PlanResult,
) -> None:
    """One model at a time, with an API among them, once ended as an internal error."""
    search, nobody = geared.search, np.zeros(len(geared.simulator.arrivals), np.int64)
    stage, alone = OverTimeStage(search, geared.simulator, BOUND_S), systems.models_alone(search)
    assert 2 in alone
    shared = list(systems._shared(search, alone))
    assert shared
    assert all(here.gpus and not here.mix(2) for here in shared)
    told = stage.outcome("all to the API", shared[0], [alone[2]], nobody)
    assert told.usd_per_hour == pytest.approx(
        shared[0].usd_per_hour + elsewhere.usd_per_hour(search, alone[2])
    )
    ladder = geared.ladder
    assert ladder is not None
    ours = stage.outcome("ours", geared.chosen.deployment, ladder.routings, ladder.played.gear)
    assert ours.usd_per_hour == pytest.approx(geared.plan.predicted.usd_per_hour)

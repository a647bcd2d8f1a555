"""Plans with stages that are somebody else's API: priced by the token, bounded by a limit, on no GPU."""

import re
from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.external import External
from cascadia.domain.objective import Objective
from cascadia.domain.plan import Plan
from cascadia.domain.problem import EXTERNAL, Problem, Stage
from cascadia.files.plan_file import parse_plan, plan_json
from cascadia.planner.account.break_even import usd_per_request
from cascadia.planner.allocation.demand import Replicas
from cascadia.planner.deployment.deployment import deployment
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.plan import open_search, plan
from cascadia.planner.pool.rate_bound import rate_bound_rps
from cascadia.planner.refinement.state import Refinement
from cascadia.planner.search.bilevel import evaluated
from cascadia.planner.search.reference_tables import References
from cascadia.planner.search.solver import solver
from cascadia.planner.stability.certificate import certify
from cascadia.render import targets_for
from cascadia.report import words
from cascadia.router.settings.from_plan import settings_of
from cascadia_sim.iteration.engine_config import EngineConfig
from tests.unit.planner import problems
from tests.unit.planner.problems import (
    MEDIUM,
    ON_ROUTER,
    briefly,
    hosted_judge,
    problem,
    rising_table,
    traffic,
)

API = External(
    1.0,
    4.0,
    ttft_p50_s=0.5,
    ttft_p95_s=1.0,
    tpot_p50_s=0.01,
    tpot_p95_s=0.01,
    base_url="https://api.example.com",
    api_key_env="FRONTIER_KEY",
)


def stage_of(name: str, api: External) -> Stage:
    """Stage that an API serves."""
    return Stage(
        name, "any-name", None, engine=EXTERNAL, quantization=None, config=EngineConfig(), external=api
    )


def with_api(rate_rps: float, api: External = API, quality_min: float = 57.0) -> Problem:
    """A model on GPUs, and behind its gate an API."""
    given = problem(
        (MEDIUM, MEDIUM),
        judge=ON_ROUTER,
        objective=Objective("cost", 0.95, quality_min),
        trace=traffic(80, rate_rps),
        table=rising_table(2),
    )
    return replace(given, stages=(given.stages[0], stage_of(given.stages[1].name, api)))


@pytest.fixture(scope="module")
def busy() -> Plan:
    return briefly(with_api(20.0)).plan


def test_where_an_api_answers_all_nothing_is_to_be_rented() -> None:
    given = with_api(0.01)
    bought = replace(given, cluster=replace(given.cluster, budget_usd_per_hour=100.0))
    result = briefly(bought)
    assert result.plan.gpus == 0
    assert "to be rented: nothing, within $100.00/h" in result.notes


def test_a_busy_cascade_owns_the_first_stage_and_pays_for_the_tokens_of_the_last(busy: Plan) -> None:
    first, last = busy.stages
    assert first.gpus == busy.gpus > 0
    assert last.external == API
    assert last.deployed
    assert 0 < busy.predicted.stages[1].reached < 1
    gpus_usd = sum(busy.cluster.pool(g.pool).usd_per_gpu_hour * g.gpus for g in busy.groups)
    assert busy.predicted.usd_per_hour == pytest.approx(gpus_usd + busy.predicted.usd_per_hour_elsewhere)
    per_1k = busy.predicted.usd_per_hour / 3.6 / busy.predicted.rate_rps
    assert busy.predicted.usd_per_1k_requests == pytest.approx(per_1k)
    assert parse_plan(plan_json(busy), "plan") == busy


def test_dollars_an_hour_are_all_that_is_paid_the_verdicts_of_others_too() -> None:
    """An hour once had no verdicts in it, while a thousand requests and what plans were ranked by had."""
    given = with_api(20.0)
    dear = replace(problems.EXTERNAL, prompt_tokens=300, usd_per_million_input_tokens=0.01)
    found = briefly(replace(given, judge=dear))
    predicted, chosen = found.plan.predicted, found.chosen
    assert found.plan.judges
    assert predicted.usd_per_1k_requests == pytest.approx(predicted.usd_per_hour / 3.6 / predicted.rate_rps)
    assert predicted.usd_per_hour == pytest.approx(chosen.usd_per_hour)
    assert predicted.usd_per_hour == pytest.approx(
        chosen.deployment.usd_per_hour + predicted.usd_per_hour_elsewhere
    )
    assert words.elsewhere(found.plan).endswith("for tokens of s1 and the judge")


def test_it_is_rendered_for_every_target_of_a_plan_with_gpus(busy: Plan) -> None:
    assert set(targets_for(busy)) == {"compose", "helm-values", "kubernetes", "local"}


def test_the_router_asks_the_api_under_its_name_with_the_key_of_the_environment(busy: Plan) -> None:
    addresses = {busy.stages[0].name: ["http://127.0.0.1:8100"], "judge": ["http://127.0.0.1:8200"]}
    stage = settings_of(busy, addresses, "plan", {"FRONTIER_KEY": "secret"}).stages[1]
    assert (stage.model, stage.replicas[0].url) == ("any-name", "https://api.example.com")
    assert (stage.replicas[0].api_key, stage.replicas[0].health_path) == ("secret", None)
    with pytest.raises(Exception, match="FRONTIER_KEY in the environment: is not set"):
        settings_of(busy, addresses, "plan", {})


def test_below_the_break_even_rate_a_plan_needs_no_gpu_and_above_it_does() -> None:
    """What is told of the rate is what plans do: far below it the API alone is cheapest."""
    slow = with_api(0.02)
    found = briefly(slow)
    assert found.plan.gpus == 0
    assert found.plan.predicted.usd_per_hour == pytest.approx(
        3600 * slow.workload.rate_rps * usd_per_request(slow, 1), rel=1e-6
    )
    assert words.headline(found.plan, {}).startswith("APIs alone serve 0.0185 requests/s")
    told = next(note for note in found.notes if note.startswith("own "))
    # Nothing limits the API: that it carries hardly more was once said of it.
    assert found.plan.headroom is not None
    assert found.plan.headroom > 100
    rate = float(told.split("pays from ")[1].split(" ")[0])
    cheapest = min(shape.usd_per_hour for shape in found.search.shapes[0])
    assert rate == pytest.approx(cheapest / 3600 / usd_per_request(slow, 1), rel=0.05)


def test_a_limit_is_a_capacity() -> None:
    """At two requests a second, none may send an API of 30 a minute more than a quarter."""
    limited = briefly(with_api(2.0, replace(API, requests_per_minute=30))).plan.predicted.stages[1]
    assert limited.rate_rps <= 0.5 * 1.02
    free = briefly(with_api(2.0)).plan.predicted
    assert np.isfinite(free.usd_per_hour)
    assert limited.load is not None
    assert limited.load <= 1.02


def refused(given: Problem) -> str:
    with pytest.raises(Infeasible) as error:
        briefly(given)
    return str(error.value)


@pytest.mark.long
@pytest.mark.slow
def test_a_limit_that_no_routing_keeps_is_what_a_refusal_names_and_so_is_one_that_does() -> None:
    """It once spoke of GPUs, of which all were free."""
    given = with_api(2.0, replace(API, requests_per_minute=3))
    told = refused(given)
    pattern = (
        r"infeasible: [\d.]+ requests/s is more than requests_per_minute allows: .* s1 [\d.]+ a minute, of 3;"
    )
    assert re.match(pattern, told)
    wider = int(told.split("; requests_per_minute ")[1].split(" of s1 would do")[0])
    assert briefly(with_api(2.0, replace(API, requests_per_minute=wider))).plan.stages[1].deployed
    assert " requests/s would hold" in told


def test_candidates_that_pass_a_limit_count_as_overloaded() -> None:
    """All that ranked first once did, and hid the plans that keep it."""
    given = with_api(2.0, replace(API, requests_per_minute=30))
    with open_search(given) as search:
        state = Refinement(search, Simulator.of(given), References.of(search))
        every = int(search.routings.reached[:, 1].argmax())
        here = deployment(every, {0: (Replicas(search.shapes[0][0], 1, 1.0),)})
        sent = search.decisions(every).reached[1].mean() * 60 * given.workload.rate_rps * 79 / 80
        assert state.simulate([here])[0].load == pytest.approx(sent / 30)


def test_a_judge_of_ours_may_gate_apis_only_and_an_api_between_two_models() -> None:
    """Such plans once ended as internal errors, or were refused."""
    given = with_api(2.0)
    judge, ours, api = hosted_judge(), given.stages[0], given.stages[1]
    table = rising_table(3)
    for stages in ((api, api, api), (ours, api, ours)):
        bounds = Objective("cost", 0.95, 60.0)
        told = problem((MEDIUM,) * 3, judge=judge, objective=bounds, trace=traffic(60, 2.0), table=table)
        named = tuple(replace(stage, name=name) for stage, name in zip(stages, table.stages, strict=True))
        with open_search(replace(told, stages=named)) as search:
            every = int(search.routings.reached.min(axis=1).argmax())
            found = evaluated(search, every, solver(search, "columns"))
            assert found.allocation is not None
            here = deployment(every, found.allocation.replicas)
            decided = search.decisions(every)
            run = Simulator.of(search.problem).run(here, decided)
            assert len(run.stages) == 3
            assert certify(Simulator.of(search.problem), here, decided, {}).holds


def for_the_largest_rate(requests_per_minute: int | None) -> Problem:
    given = with_api(20.0, replace(API, requests_per_minute=requests_per_minute))
    return replace(given, objective=Objective("rate", 0.95, 57.0, 12.0))


def test_the_largest_rate_of_apis_without_a_limit_is_refused() -> None:
    """A hundredth of the trace's rate was once called the largest."""
    given = for_the_largest_rate(None)
    away = replace(given.stages[1], name=given.stages[0].name)
    with pytest.raises(
        BadInput, match=r"^objective.maximize: there is no largest rate: s0 or s1 .*; write its"
    ):
        plan(replace(given, stages=(away, given.stages[1])))


def test_no_rate_passes_the_limits_of_apis() -> None:
    """By what a routing sends them: a call a second, of which each request makes one or less."""
    given = for_the_largest_rate(60)
    with open_search(given) as search:
        for k in np.flatnonzero(search.routings.deployed[:, 1])[:8].tolist():
            sent = float(search.decisions(k).reached[1].mean())
            bound = rate_bound_rps(search, k)
            assert bound == pytest.approx(80 / 79 / sent)
        simulator, decided = Simulator.of(given), search.decisions(0)
        here = deployment(0, {0: (Replicas(search.shapes[0][0], 1, 1.0),)})
        assert certify(simulator, here, decided, {1: 1.0}).holds
        assert not certify(simulator, here, decided, {1: 1.01}).holds

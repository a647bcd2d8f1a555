"""TTFT and TPOT as the client sees them: of a held answer all comes at once, with its verdict."""

import numpy as np
import pytest

from cascadia.domain.objective import Level, Objective
from cascadia.planner.deployment.levels import level_predictions, metric_s, reached_s, tpot_s
from cascadia.planner.deployment.simulation import Simulator, quantile_s
from cascadia.planner.plan import PlanResult
from cascadia.planner.refinement.refine import EFFORT, Refinement
from cascadia.planner.refinement.state import composed, composer
from cascadia_sim.iteration.timing import PS_PER_S
from tests.unit.planner.problems import briefly, problem, rising_table, traffic

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found() -> PlanResult:
    """Its judge has levels enough that no mixture without a gate is cheaper."""
    fine = rising_table(2, levels=1000)
    return briefly(problem(objective=Objective("cost", 0.95, 57.0), trace=traffic(120, 60.0), table=fine))


@pytest.mark.long
def test_a_held_answer_begins_with_its_verdict_and_takes_no_time_a_token(found: PlanResult) -> None:
    run, told = found.run, found.simulator.problem
    held = run.answered_by == 0
    assert 0 < held.sum() < len(held), "both stages answer some"
    assert run.verdicts is not None
    last_verdict_s = np.zeros(len(held))
    last_verdict_s[run.verdicts.requests] = (
        run.verdicts.finish_ps - run.arrival_ps[run.verdicts.requests]
    ) / PS_PER_S
    np.testing.assert_array_equal(metric_s(told, run, "ttft")[held], last_verdict_s[held])
    assert not metric_s(told, run, "tpot")[held].any()
    streamed = ~held & (told.workload.output_tokens[1] > 1)
    assert (metric_s(told, run, "tpot")[streamed] > 0).all()
    assert (metric_s(told, run, "ttft") <= metric_s(told, run, "e2e")).all()
    assert found.plan.predicted.tpot is not None
    assert found.plan.predicted.tpot.p95_s == quantile_s(metric_s(told, run, "tpot"), 0.95)


def test_an_answer_of_one_token_has_no_time_a_token() -> None:
    ps = np.array([0, 10]) * PS_PER_S
    np.testing.assert_array_equal(tpot_s(ps, ps + 4 * PS_PER_S, np.array([1, 5])), [0.0, 1.0])


@pytest.mark.long
def test_what_is_reached_is_told_beside_what_is_asked(found: PlanResult) -> None:
    level = Level("ttft", 0.5, 0.3)
    told = level_predictions(found.simulator.problem, found.run, [level])[0]
    ttft_s = metric_s(found.simulator.problem, found.run, "ttft")
    assert told.reached_s == reached_s(found.simulator.problem, found.run, [level])[0]
    assert told.attained == (ttft_s <= 0.3).mean()
    assert (told.reached_s <= 0.3) == (told.attained >= 0.5)


@pytest.mark.long
def test_composition_promises_about_what_simulation_shows_of_each_metric() -> None:
    levels = tuple(Level(metric, 0.9, 100.0) for metric in ("ttft", "tpot", "e2e"))  # type: ignore[arg-type]
    given = problem(objective=Objective("cost", 0.95, 57.0, levels=levels), trace=traffic(200, 20.0))
    found = briefly(given)
    search, routing = found.search, found.chosen.deployment.routing
    state = Refinement(search, Simulator.of(search.problem), found.loop.references)
    parts = composed(state, composer(search, 200), routing, state.menu(routing), EFFORT)
    known = state.simulate([found.chosen.deployment])[0]
    fastest = int(parts.latency_s.argmin())
    assert parts.levels_s.shape == (3, len(parts.grid))
    assert (parts.levels_s[0] <= parts.levels_s[2] + 1e-12).all(), (
        "the first token never comes after the last"
    )
    assert np.isfinite(parts.levels_s[:, fastest]).all()
    cheapest = np.abs(parts.levels_s - np.array(known.levels_s)[:, None]) / np.array(known.levels_s)[:, None]
    assert cheapest.max(axis=0).min() < 0.1, "some combination promises what the plan's deployment shows"

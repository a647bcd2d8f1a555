"""A bound on latency is kept by the trace once and by eight rounds of it, whatever is sought within it.

One plan of 29.9 s under a bound of 30 s took 33.2 s on the repeats.
"""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from cascadia.domain.errors import Infeasible
from cascadia.domain.objective import Goal, Level, Objective
from cascadia.planner.deployment.levels import reached_s
from cascadia.planner.deployment.simulation import quantile_s
from cascadia.planner.plan import PlanResult, plan
from cascadia.planner.refinement.state import Effort
from cascadia.planner.routing.routings import Decisions
from cascadia.planner.stability.repeats import decided_repeated, repeated
from tests.benchmarks.across_goals import drawn

pytestmark = pytest.mark.slow

LITTLE = Effort(routings=2, combinations=60, simulated_requests=1_000, fewest_simulations=8)
SEEDS = (1, 3, 4, 5)
"""The first is one that missed its bounds."""


def on_repeats_s(result: PlanResult) -> tuple[float, ...]:
    """Seconds of each of the plan's bounds when its trace is played eight times, from a run of its own."""
    found = result.chosen.certificate
    assert found is not None
    every = repeated(found.simulator, 8)
    decided: Decisions = decided_repeated(found.decided, 8)
    run = every.run(result.chosen.deployment, decided)
    objective = result.plan.objective
    own = () if objective.latency_max_s is None else (quantile_s(run.latency_ps / 1e12, objective.quantile),)
    return (*own, *reached_s(every.problem, run, objective.levels))


def asked(seed: int, objective: Objective) -> PlanResult:
    return plan(replace(drawn(seed, requests=100), objective=objective), effort=LITTLE)


@cache
def fastest(seed: int) -> PlanResult:
    return asked(seed, drawn(seed, requests=100).objective)


@pytest.mark.long
@pytest.mark.parametrize("goal", ["quality", "cost"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_keeps_its_bound_when_its_trace_is_played_eight_times(seed: int, goal: Goal) -> None:
    least = fastest(seed).plan
    looser = float(np.random.default_rng([seed, 11]).uniform(1.0, 1.4))
    bar = least.objective.quality_min if goal == "cost" else None
    bound_s = looser * least.held_s
    result = asked(seed, Objective(goal, 0.95, bar, bound_s))
    assert max(result.plan.predicted.objective_s, *on_repeats_s(result)) <= bound_s
    assert result.plan.held_s <= bound_s


@pytest.mark.long
def test_so_are_levels_beside_a_goal_without_a_bound() -> None:
    least = fastest(4)
    levels = tuple(Level("ttft", q, s) for q, s in ((0.5, 1e6), (0.9, 1e6)))
    told = asked(4, replace(least.plan.objective, levels=levels))
    tight = tuple(replace(level, max_s=1.05 * s) for level, s in zip(levels, on_repeats_s(told), strict=True))
    result = asked(4, Objective("cost", 0.95, least.plan.objective.quality_min, levels=tight))
    assert all(s <= level.max_s for s, level in zip(on_repeats_s(result), tight, strict=True))


@pytest.mark.long
@pytest.mark.parametrize("seed", [3, 5])
def test_the_latency_that_the_fastest_plan_keeps_is_no_bound_to_be_refused(seed: int) -> None:
    """By default that plan is a cheaper one, nearly as fast on one round and perhaps slower or faster on eight."""
    least = asked(seed, replace(drawn(seed, requests=100).objective, within=0.03)).plan
    result = asked(seed, Objective("cost", 0.95, least.objective.quality_min, least.held_s))
    assert result.plan.held_s <= least.held_s
    assert result.plan.predicted.usd_per_hour <= least.predicted.usd_per_hour


@pytest.mark.long
@pytest.mark.parametrize("seed", [4, 3])
def test_nor_is_what_a_refusal_names(seed: int) -> None:
    least = fastest(seed).plan
    cheapest = Objective("cost", 0.95, least.objective.quality_min, 0.6 * least.predicted.objective_s)
    with pytest.raises(Infeasible) as refused:
        asked(seed, cheapest)
    found = re.search(r"the lowest found is ([\d.]+) s", str(refused.value))
    assert found is not None
    named_s = float(found[1])
    assert named_s <= 1.01 * least.held_s
    assert asked(seed, replace(cheapest, latency_max_s=named_s)).plan.held_s <= named_s

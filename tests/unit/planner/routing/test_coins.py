"""Coins keep the bar with the least of the better model, and are taken where a gate costs more time than it saves."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.objective import Objective
from cascadia.domain.problem import Judge
from cascadia.planner.plan import plan, routings_of
from cascadia.planner.routing.coins import coins
from cascadia.planner.routing.mixtures import STEPS
from tests.unit.planner.problems import LARGE, MEDIUM, SMALL, problem, rising_table, traffic


@pytest.mark.parametrize("bar", [56.0, 62.0])
def test_a_coin_keeps_the_bar_by_as_little_as_its_steps_allow(bar: float) -> None:
    given = problem((SMALL, MEDIUM, LARGE), table=rising_table(3, prompts=400))
    routings = routings_of(given)[0]
    alone = routings.take(np.count_nonzero(routings.deployed, axis=1) == 1)
    lower = {int(row.argmax()): bound for row, bound in zip(alone.deployed, alone.lower, strict=True)}
    found = coins(routings, bar)
    assert found is not None
    assert found.mixed is not None
    pairs = [tuple(np.flatnonzero(row).tolist()) for row in found.deployed]
    assert sorted(pairs) == sorted(
        (a, b) for a in lower for b in lower if a < b and lower[a] < bar <= max(lower[b], lower[a])
    )
    for k, (a, b) in enumerate(pairs):
        share = found.reached[k, b]
        assert found.reached[k].sum() == pytest.approx(1.0)
        assert found.lower[k] == pytest.approx((1 - share) * lower[a] + share * lower[b])
        assert bar <= found.lower[k] < bar + (lower[b] - lower[a]) / STEPS
        assert not found.verdicts(np.array([k])).any()
    assert coins(routings, 0.0) is None
    assert coins(routings, 100.0) is None


def test_a_gate_that_costs_more_time_than_it_saves_gives_way_to_a_coin() -> None:
    slow = Judge("llm", "external", latency_p50_s=200.0, latency_p95_s=220.0)
    given = problem(
        (SMALL, LARGE),
        judge=slow,
        objective=Objective("latency", 0.5, 60.0),
        table=rising_table(2, prompts=400),
        trace=traffic(400, 10.0),
    )
    best = plan(given)
    routings, k = best.search.routings, best.chosen.deployment.routing
    assert routings.mixed is not None
    assert 0 < routings.mixed.share[k] < 1
    assert not routings.verdicts(np.array([k])).any()
    alone = plan(replace(given, objective=Objective("latency", 0.5, float(routings.lower.max()))))
    assert best.plan.predicted.objective_s < alone.plan.predicted.objective_s

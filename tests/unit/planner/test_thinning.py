"""A long trace is planned on a part of it that keeps its rate, bursts and lengths; then the plan is tried on all."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from cascadia.domain.objective import Objective
from cascadia.planner.deployment.simulation import Simulator, quantile_s
from cascadia.planner.plan import plan
from cascadia.planner.refinement.refine import Effort
from cascadia.planner.thinning import GROWTH, planned_on_part, thinned
from tests.unit.planner.problems import problem, traffic

pytestmark = pytest.mark.slow

LITTLE = Effort(routings=3, combinations=200, simulated_requests=0, fewest_simulations=4)
FASTEST = Objective("latency", 0.95, 52.0, within=0.0)
LONG = problem(trace=traffic(requests=20_000, rate_rps=30), objective=FASTEST)
PLANNED = problem(trace=traffic(requests=8_000, rate_rps=30), objective=FASTEST)


def test_the_part_keeps_the_rate_and_the_lengths() -> None:
    part, whole = thinned(LONG, 2000).workload, LONG.workload
    assert len(part) == pytest.approx(2000, rel=0.01)
    assert part.rate_rps == pytest.approx(whole.rate_rps)
    assert part.output_tokens.mean() == pytest.approx(whole.output_tokens.mean(), rel=0.05)
    assert (np.diff(part.arrival_s) >= 0).all()


def test_the_part_keeps_the_bursts() -> None:
    rng = np.random.default_rng(1)
    gaps = rng.gamma(0.2, 5.0, 20_000)
    bursty = replace(LONG, workload=replace(LONG.workload, arrival_s=np.cumsum(gaps) - gaps[0]))
    kept = np.diff(thinned(bursty, 3000).workload.arrival_s)
    assert kept.std() / kept.mean() == pytest.approx(gaps.std() / gaps.mean(), rel=0.15)


def test_a_short_trace_is_taken_whole() -> None:
    assert thinned(LONG, 20_000) is LONG


@pytest.mark.long
def test_the_note_says_what_the_part_had_wrong() -> None:
    result = planned_on_part(PLANNED, partial(plan, effort=LITTLE), 2500)
    note = next(note for note in result.notes if note.startswith("planned on"))
    simulator = Simulator.of(PLANNED)
    run = simulator.run(result.chosen.deployment, _decided(result))
    whole_s = quantile_s(simulator.latency_s(run), 0.95)
    assert f"with all of them p95 is {whole_s:.3g} s" in note
    assert result.plan.predicted.objective_s == pytest.approx(whole_s, rel=0.1)


def _decided(result):  # type: ignore[no-untyped-def]
    from cascadia.planner.search.context import decisions

    return decisions(PLANNED, result.search.routings, result.chosen.deployment.routing)


@pytest.mark.long
def test_where_the_part_misleads_more_is_taken() -> None:
    """A rush in the middle, between two of the stretches, is seen only by a larger part."""
    asked: list[int] = []

    def make(part, **until):  # type: ignore[no-untyped-def]
        asked.append(len(part.workload))
        return plan(part, effort=LITTLE, **until)

    arrival_s = PLANNED.workload.arrival_s.copy()
    gaps = np.diff(arrival_s, prepend=0.0)
    gaps[3_600:4_300] *= 0.02
    rush = replace(PLANNED, workload=replace(PLANNED.workload, arrival_s=np.cumsum(gaps)))
    planned_on_part(rush, make, 600)
    assert asked[0] < 1000
    assert len(asked) > 1
    assert asked[1] > asked[0] * (GROWTH - 1)

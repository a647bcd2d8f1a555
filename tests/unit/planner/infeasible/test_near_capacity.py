"""Where replicas are sent nearly all that they sustain, no goal and no refusal knows less than another."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cascadia.domain.cluster import Pool
from cascadia.domain.errors import Infeasible
from cascadia.domain.objective import Objective
from cascadia.domain.problem import Problem
from cascadia.planner.plan import plan
from cascadia.planner.stability.repeats import at_rate
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_traces.trace import Trace
from tests.benchmarks.supersets import FEW
from tests.unit.planner.problems import MEDIUM, problem

CHAT = Path(__file__).parents[4] / "docs" / "examples" / "chat.csv"
ONE = Pool("h100-sxm", "h100-sxm", 1, 1, 2.67)
RATE_RPS = 21.0
BAR = 20.0


def crowded(objective: Objective) -> Problem:
    """Chats on a GPU that carries hardly more of them."""
    arrival_s, read, wrote = np.loadtxt(CHAT, delimiter=",", skiprows=1).T
    trace = Trace(arrival_s, read.astype(np.int64), wrote.astype(np.int64))
    made = problem((MEDIUM,), pools=(ONE,), trace=trace, objective=objective)
    config = EngineConfig(max_num_batched_tokens=8192)
    (stage,) = (replace(s, config=config, searches_batch_tokens=True) for s in made.stages)
    made = replace(made, stages=(stage,))
    return at_rate(made, RATE_RPS / made.workload.rate_rps)


@cache
def held_s(objective: Objective) -> float:
    stability = plan(crowded(objective), effort=FEW).plan.stability
    assert stability is not None
    return max(stability.objective_once_s, stability.objective_repeated_s)


@pytest.mark.long
def test_who_seeks_the_least_latency_is_not_slower_than_who_seeks_the_least_cost() -> None:
    fast, cheap = held_s(Objective("latency", 0.95, BAR)), held_s(Objective("cost", 0.95, BAR, 60.0))
    assert fast <= cheap


def test_the_lowest_latency_that_a_refusal_names_is_no_more_than_a_plan_has() -> None:
    cheap = held_s(Objective("cost", 0.95, BAR, 60.0))
    for share in (0.99, 0.9):
        with pytest.raises(Infeasible) as refused:
            plan(crowded(Objective("cost", 0.95, BAR, share * cheap)), effort=FEW)
        lowest = float(refused.value.nearest.removeprefix("the lowest found is ").partition(" s,")[0])
        assert lowest <= cheap * 1.01

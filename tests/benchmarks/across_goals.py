"""Plans of one problem for two goals: whoever seeks what a plan for another goal reaches must reach as much.

The second goal has the first plan's own figures as its bounds, but for `SLACK`, so that the first plan keeps them all.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.objective import Objective
from cascadia.domain.plan import Predicted
from cascadia.domain.problem import Problem
from cascadia.planner.plan import plan
from cascadia.planner.refinement.state import Effort
from tests.benchmarks.exhaustive import random_problem

SLACK = 1.005
"""On latency: as near as plans are to what enumeration finds (`bench_optimality.py`)."""
SHORT = Effort(simulated_requests=40_000)


@dataclass(frozen=True)
class AcrossGoals:
    """`then`: what the second goal asks, given what the first plan reaches. `value`: what it seeks, the less the
    better."""

    problem: Problem
    first: Objective
    then: Callable[[Predicted], Objective]
    value: Callable[[Predicted], float]

    @property
    def values(self) -> tuple[float, float]:
        """Of both plans; infinite where there is none."""
        if (reached := _predicted(self.problem, self.first)) is None:
            return inf, inf
        found = _predicted(self.problem, self.then(reached))
        return self.value(reached), inf if found is None else self.value(found)


def _predicted(problem: Problem, objective: Objective) -> Predicted | None:
    try:
        return plan(replace(problem, objective=objective), effort=SHORT).plan.predicted
    except (Infeasible, BadInput):
        return None


def drawn(seed: int) -> Problem:
    """A random cascade at one, two or four times its traffic."""
    problem, rng = random_problem(seed, requests=200), np.random.default_rng([seed, 77])
    w = problem.workload
    busier = float(rng.choice([1.0, 2.0, 4.0]))
    return replace(problem, workload=replace(w, arrival_s=w.arrival_s / busier))


def _limit_s(seed: int) -> float:
    return float(np.random.default_rng([seed, 78]).choice([5.0, 10.0, 20.0, 60.0]))


def _negative_quality(predicted: Predicted) -> float:
    return -predicted.quality.lower


def quality_of_the_fastest(seed: int) -> AcrossGoals:
    problem = drawn(seed)

    def then(was: Predicted) -> Objective:
        return Objective("quality", 0.95, None, SLACK * was.objective_s)

    return AcrossGoals(problem, problem.objective, then, _negative_quality)


def quality_of_the_cheapest(seed: int) -> AcrossGoals:
    problem, limit_s = drawn(seed), _limit_s(seed)
    cheapest = Objective("cost", 0.95, problem.objective.quality_min, limit_s)
    best = Objective("quality", 0.95, None, SLACK * limit_s)
    return AcrossGoals(problem, cheapest, lambda _: best, _negative_quality)


def cost_of_the_best(seed: int) -> AcrossGoals:
    problem, limit_s = drawn(seed), _limit_s(seed)

    def then(was: Predicted) -> Objective:
        return Objective("cost", 0.95, was.quality.lower, SLACK * limit_s)

    best = Objective("quality", 0.95, None, limit_s)
    return AcrossGoals(problem, best, then, lambda predicted: predicted.usd_per_hour)

"""Plans of one problem for two goals: whoever seeks what a plan for another goal reaches must reach as much.

The second goal has the first plan's own figures as its bounds, but for `SLACK`, so that the first plan keeps them all.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.objective import Goal, Objective
from cascadia.domain.plan import Plan
from cascadia.domain.problem import Problem
from cascadia.planner.plan import plan, routings_of
from cascadia.planner.refinement.state import Effort
from tests.benchmarks.exhaustive import random_problem, random_table

SLACK = 1.005
"""On latency: as near as plans are to what enumeration finds (`bench_optimality.py`)."""
HARDLY = 1.0001
LESS = 0.97
SHORT = Effort(simulated_requests=40_000)
LITTLE = Effort(routings=2, combinations=100, simulated_requests=1000, fewest_simulations=4)
"""So little that searches by other goals miss what that for the fastest finds."""


@dataclass(frozen=True)
class AcrossGoals:
    """`then`: what the second goal asks, given what the first plan reaches. `value`: what it seeks, the less the
    better."""

    problem: Problem
    first: Objective
    then: Callable[[Plan], Objective]
    value: Callable[[Plan], float]
    effort: Effort = SHORT

    @property
    def values(self) -> tuple[float, float]:
        """Of both plans; infinite where there is none."""
        if (reached := planned(self.problem, self.first, self.effort)) is None:
            return inf, inf
        found = planned(self.problem, self.then(reached), self.effort)
        return self.value(reached), inf if found is None else self.value(found)


def planned(problem: Problem, objective: Objective, effort: Effort) -> Plan | None:
    try:
        return plan(replace(problem, objective=objective), effort=effort).plan
    except (Infeasible, BadInput):
        return None


def drawn(seed: int, requests: int = 200) -> Problem:
    """A random cascade at one, two or four times its traffic."""
    problem, rng = random_problem(seed, requests=requests), np.random.default_rng([seed, 77])
    w = problem.workload
    busier = float(rng.choice([1.0, 2.0, 4.0]))
    return replace(problem, workload=replace(w, arrival_s=w.arrival_s / busier))


def bound_of_the_fastest(seed: int) -> AcrossGoals:
    """A judge of two or three levels, and a bar between two routings: whoever asks for the fastest plan's own latency
    is not refused."""
    problem, rng = drawn(seed, requests=60), np.random.default_rng([seed, 5])
    stages = len(problem.stages)
    problem = replace(problem, quality=random_table(rng, stages, int(rng.integers(2, 4))))
    reached = np.unique(routings_of(problem)[0].lower)
    at = int(rng.integers(max(len(reached) // 2, 1), len(reached)))
    bar = float(reached[at - 1] + (reached[at] - reached[at - 1]) * rng.uniform(0.1, 0.9))
    goal: Goal = "quality" if seed % 2 else "cost"

    def then(was: Plan) -> Objective:
        return Objective(goal, 0.95, bar, HARDLY * was.held_s)

    fastest = Objective("latency", 0.95, bar, within=0.0)
    return AcrossGoals(problem, fastest, then, lambda was: was.held_s / HARDLY, LITTLE)


def _limit_s(seed: int) -> float:
    return float(np.random.default_rng([seed, 78]).choice([5.0, 10.0, 20.0, 60.0]))


def _negative_quality(was: Plan) -> float:
    return -was.predicted.quality.lower


def fastest_within_less(seed: int) -> AcrossGoals:
    """Whoever seeks the fastest is not told of a slower one than the cheapest within a bound below that."""
    problem = drawn(seed)
    fastest = Objective("latency", 0.95, problem.objective.quality_min, within=0.0)
    found = planned(problem, fastest, SHORT)
    limit_s = None if found is None else LESS * found.held_s
    within = Objective("cost", 0.95, problem.objective.quality_min, limit_s)
    return AcrossGoals(problem, within, lambda _: fastest, lambda was: was.held_s)


def quality_of_the_fastest(seed: int) -> AcrossGoals:
    problem = drawn(seed)

    def then(was: Plan) -> Objective:
        return Objective("quality", 0.95, None, SLACK * was.held_s)

    return AcrossGoals(problem, problem.objective, then, _negative_quality)


def quality_of_the_cheapest(seed: int) -> AcrossGoals:
    problem, limit_s = drawn(seed), _limit_s(seed)
    cheapest = Objective("cost", 0.95, problem.objective.quality_min, limit_s)
    best = Objective("quality", 0.95, None, SLACK * limit_s)
    return AcrossGoals(problem, cheapest, lambda _: best, _negative_quality)


def cost_of_the_best(seed: int) -> AcrossGoals:
    problem, limit_s = drawn(seed), _limit_s(seed)

    def then(was: Plan) -> Objective:
        return Objective("cost", 0.95, was.predicted.quality.lower, SLACK * limit_s)

    best = Objective("quality", 0.95, None, limit_s)
    return AcrossGoals(problem, best, then, lambda was: was.predicted.usd_per_hour)

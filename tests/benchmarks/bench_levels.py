"""Service levels on random problems: what is asked for is kept, and what is looser never costs more.

    python -m tests.benchmarks.bench_levels [PROBLEMS]

Of each problem, a metric and a quantile, the cheapest plan without a bound says what it reaches; then plans are made
under so many times that. Printed: bounds that were kept, refused (no plan was found), and broken; steps to a looser
bound at which the plan became dearer, and by how much at most.
"""

import argparse
from dataclasses import replace
from itertools import pairwise
from typing import get_args

from cascadia.domain.errors import BadInput, Infeasible
from cascadia.domain.objective import Level, Metric, Objective
from cascadia.domain.problem import Problem
from cascadia.planner.plan import plan
from tests.benchmarks.exhaustive import random_problem

TIMES = (0.3, 0.5, 0.7, 0.85, 1.0)
QUANTILES = (0.5, 0.95)


def under(problem: Problem, level: Level) -> tuple[float, float] | None:
    """Dollars an hour of the cheapest plan under `level`, and what it reaches; None where there is none."""
    asked = Objective("cost", 0.95, problem.objective.quality_min or 50.0, levels=(level,))
    try:
        found = plan(replace(problem, objective=asked)).plan.predicted
    except (Infeasible, BadInput):
        return None
    return found.usd_per_hour, found.levels[0].reached_s


def main(problems: int) -> None:
    kept = refused = broken = steps = dearer = 0
    worst = 0.0
    for seed in range(problems):
        problem = random_problem(seed, requests=200)
        for metric, quantile in ((m, q) for m in get_args(Metric) for q in QUANTILES):
            free = under(problem, Level(metric, quantile, 1e5))
            if free is None or free[1] <= 0:
                continue
            bounds = [time * free[1] for time in TIMES]
            found = [under(problem, Level(metric, quantile, bound)) for bound in bounds]
            refused += sum(each is None for each in found)
            for bound, each in zip(bounds, found, strict=True):
                kept += each is not None and each[1] <= bound
                broken += each is not None and each[1] > bound
            usd = [float("inf") if each is None else each[0] for each in found] + [free[0]]
            for tight, loose in pairwise(usd):
                steps += 1
                if loose > tight + 1e-9:
                    dearer, worst = dearer + 1, max(worst, loose / tight - 1)
    print(f"{problems} problems: {kept} bounds kept, {refused} refused, {broken} broken")
    print(f"{steps} steps to a looser bound: {dearer} dearer, by {worst:.1%} at most")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="bounds of service levels, kept or not")
    parser.add_argument("problems", type=int, nargs="?", default=8)
    main(parser.parse_args().problems)

"""Plans with exits beside plans without, on problems made up: never worse, and by how much better.

python -m tests.benchmarks.bench_exit_plans [--problems 8]
"""

import argparse
from dataclasses import replace

from cascadia.domain.objective import Objective
from cascadia.planner.plan import PlanResult, plan
from tests.unit.planner.pointed import with_exits

OBJECTIVES = (
    Objective("cost", 0.95, 76.0, 30.0),
    Objective("latency", 0.5, 76.0),
    Objective("latency", 0.95, 80.0),
    Objective("quality", 0.95, None, 8.0),
)


def reached(result: PlanResult, objective: Objective) -> float:
    """What the objective makes small."""
    predicted = result.plan.predicted
    if objective.goal == "latency":
        return result.fastest.latency_s
    return predicted.usd_per_hour if objective.goal == "cost" else -predicted.quality.lower


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=8, help="Problems for each objective. Default: 8.")
    count = parser.parse_args().problems
    for objective in OBJECTIVES:
        better, worse, ratios = 0, 0, []
        for seed in range(count):
            problem = with_exits(objective, seed=seed, requests=80)
            without = reached(plan(replace(problem, points=None)), objective)
            exiting = reached(plan(problem), objective)
            better += exiting < without
            worse += exiting > without
            ratios.append(exiting / without)
        name = f"{objective.goal} p{objective.quantile * 100:g}"
        ratio = sum(ratios) / count
        print(f"{name}: better {better}, worse {worse} of {count}; ratio {ratio:.3f}")
        assert worse == 0


if __name__ == "__main__":
    main()

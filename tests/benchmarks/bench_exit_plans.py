"""Plans with exits beside plans without, on problems made up: never worse, and by how much better.

python -m tests.benchmarks.bench_exit_plans [--problems 8] [--goal cost --rate 96 --gpus 32]
"""

import argparse
from dataclasses import replace

from cascadia.domain.cluster import Cluster, Pool
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
    parser.add_argument("--goal", choices=("cost", "latency", "quality"), help="One of them. Default: all.")
    parser.add_argument("--rate", type=float, default=12.0, help="Requests a second. Default: 12.")
    parser.add_argument("--gpus", type=int, default=4, help="GPUs there are. Default: 4.")
    told = parser.parse_args()
    count, pool = told.problems, Pool("h100-sxm", "h100-sxm", max(told.gpus // 8, 1), min(told.gpus, 8), 2.5)
    for objective in OBJECTIVES:
        if told.goal not in (None, objective.goal):
            continue
        better, worse, ratios = 0, 0, []
        for seed in range(count):
            problem = with_exits(objective, seed=seed, requests=80, rate_rps=told.rate)
            problem = replace(problem, cluster=Cluster((pool,)))
            without = reached(plan(replace(problem, points=None)), objective)
            exiting = reached(plan(problem), objective)
            print(f"  {seed}: {without:.3f} -> {exiting:.3f}", flush=True)
            better += exiting < without
            worse += exiting > without
            ratios.append(exiting / without)
        name = f"{objective.goal} p{objective.quantile * 100:g}"
        ratio = sum(ratios) / count
        print(f"{name}: better {better}, worse {worse} of {count}; ratio {ratio:.3f}")
        assert worse == 0


if __name__ == "__main__":
    main()

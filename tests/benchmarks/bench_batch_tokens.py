"""Does it pay to choose how many tokens an engine takes an iteration (`max_num_batched_tokens`)?

    CASCADIA_DATA=... python -m tests.benchmarks.bench_batch_tokens

Plans the bundled example on three kinds of traffic with every engine's number left as it is, and again with the numbers
searched. Exits with 1 where the plan that searches is the worse one.
"""

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from cascadia.demo.plan_example import SPEC_NAME, TRACE_NAME, write_example
from cascadia.domain.errors import Infeasible
from cascadia.domain.objective import Objective
from cascadia.domain.problem import Problem
from cascadia.planner.plan import PlanResult, plan
from cascadia.planner.problem.read import read_problem
from tests.benchmarks.report_table import markdown
from tests.data import data_dir

TRAFFIC = (
    ("bundled chat", None, 24.0, None),
    ("Azure code 2023", "azure_2023_code.csv", 10.0, 6.0),
    ("Mooncake", "mooncake_conversation.jsonl.gz", 3.0, 40.0),
)
"""Name, file, requests a second, and the latency bound of the goal `cost` (seconds; None: not planned)."""

SAME = 1e-9


def main() -> int:
    rows, worse = [], False
    with tempfile.TemporaryDirectory() as folder:
        write_example(Path(folder))
        spec = (Path(folder) / SPEC_NAME).read_text()
        for name, file, rate_rps, limit_s in TRAFFIC:
            trace = TRACE_NAME if file is None else str(data_dir() / "traces" / file)
            here = Path(folder) / "here.yaml"
            here.write_text(spec.replace(TRACE_NAME, trace).replace("rate_rps: 24", f"rate_rps: {rate_rps}"))
            problem = read_problem(here)
            goals = [problem.objective]
            goals += [Objective("cost", 0.95, problem.objective.quality_min, limit_s)] if limit_s else []
            for goal in goals:
                row, lost = _row(name, replace(problem, objective=goal))
                rows.append(row)
                worse |= lost
                print(" | ".join(row), flush=True)
    print(markdown(("traffic", "goal", "as they are", "searched", "tokens by stage", "CPU s, both"), rows))
    return int(worse)


def _row(name: str, problem: Problem) -> tuple[tuple[str, ...], bool]:
    stages = tuple(replace(s, searches_batch_tokens=False) for s in problem.stages)
    fixed = replace(problem, stages=stages, judge=replace(problem.judge, searches_batch_tokens=False))
    (was, was_s), (now, now_s) = _planned(fixed), _planned(problem)
    tokens = (
        [] if now is None else [f"{s.config.max_num_batched_tokens}" for s in now.plan.stages if s.deployed]
    )
    limit_s = problem.objective.latency_max_s
    goal = "latency" if limit_s is None else f"cost, p95 ≤ {limit_s:g} s"
    lost = was is not None and (now is None or _value(now) > _value(was) + SAME)
    return (name, goal, _shown(was), _shown(now), ", ".join(tokens), f"{was_s:.1f}, {now_s:.1f}"), lost


def _planned(problem: Problem) -> tuple[PlanResult | None, float]:
    began = time.process_time()
    try:
        found = plan(problem)
    except Infeasible:
        found = None
    return found, time.process_time() - began


def _value(found: PlanResult) -> float:
    best = found.fastest
    return best.latency_s if found.plan.objective.goal == "latency" else best.usd_per_hour


def _shown(found: PlanResult | None) -> str:
    if found is None:
        return "infeasible"
    predicted = found.plan.predicted
    return f"p95 {predicted.objective_s:.2f} s, ${predicted.usd_per_hour:,.2f}/h"


if __name__ == "__main__":
    sys.exit(main())

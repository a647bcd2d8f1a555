"""Plans of the demo, simulated and served on its real engines: latency and throughput side by side.

    python -m tests.benchmarks.bench_plans_served [--requests 60]

For each of five bars and three rates the demo's spec is planned, its engines, judge and router are started as the demo
does, and questions of the plan's own table are asked: at Poisson times, for the latency; then all at once, for the
throughput. The simulator is given the same questions at the same times. Prints a Markdown table, and how far the
figures are apart; exits with 1 where a question gets no answer. Cores must be idle: engines have one each.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from cascadia.clients.hub.catalogue import model_named
from cascadia.clients.hub.fetch import fetch
from cascadia.demo.calibrate import calibrate, kept_speeds
from cascadia.demo.children import Children
from cascadia.demo.example import trace_of, write_example
from cascadia.demo.fleet import start_fleet, warm_up_all
from cascadia.demo.measuring.replay import arrivals_s
from cascadia.demo.measuring.replay import replay as asked
from cascadia.demo.measuring.rows import prompt_id
from cascadia.demo.questions.question import Question
from cascadia.demo.questions.questions import training_questions
from cascadia.demo.stages import ENCODER, STAGES, free_cores
from cascadia.domain.plan import Plan
from cascadia.domain.problem import Problem
from cascadia.domain.quality import QualityTable
from cascadia.domain.workload import Floats
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.plan import plan
from cascadia.planner.problem.join import Context, join
from cascadia.planner.problem.read import read_problem
from cascadia.planner.replay.replay import gate_decisions, redeployed
from cascadia_sim.iteration.timing import PS_PER_S
from cascadia_traces.trace import Trace
from tests.benchmarks.report_table import markdown

TRAINED = 480
"""Questions that the demo's table is made of; those of its seed that it holds are asked."""
BARS = (70.0, 84.0, 86.0, 88.0, 90.0)
LOADS = (0.5, 0.7, 0.9)
"""Rates, as parts of the demo's own."""
SEED = 7
PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds of each answer, simulated and measured; answers a second where all are asked at once."""

    plan: Plan
    told_s: Floats
    took_s: Floats
    told_rps: float
    rps: float

    @property
    def cells(self) -> tuple[str, ...]:
        asked_for, shown = self.plan, []
        for share in (0.5, 0.95):
            shown += [f"{np.quantile(self.told_s, share):.2f}", f"{np.quantile(self.took_s, share):.2f}"]
        stages = " → ".join(
            f"{sum(group.count for group in stage.replicas)} {stage.name}"
            for stage in asked_for.stages
            if stage.deployed
        )
        bar = asked_for.objective.quality_min
        return (
            f"{bar:g}",
            f"{asked_for.predicted.rate_rps:.2f}",
            stages,
            *shown,
            f"{self.told_rps:.2f}",
            f"{self.rps:.2f}",
        )


def simulated(made: Plan, problem: Problem, trace: Trace) -> tuple[Floats, Floats]:
    """Seconds until each answer, from its question and from the start. Once, as it is served: not in as many rounds as
    it takes to settle, which a plan is told by."""
    contexts = tuple(Context(stage.name, stage.max_model_len) for stage in made.stages)
    workload, _ = join(trace, problem.quality, seed=made.seed, contexts=contexts)
    once = replace(problem, workload=workload)
    decided = gate_decisions(made, problem.quality, workload.row)
    run = Simulator.of(once).run(redeployed(made, once), decided)
    return run.latency_ps / PS_PER_S, run.finish_ps / PS_PER_S


def known(table: QualityTable) -> dict[int, Question]:
    """Questions by their row in the table."""
    rows = {name: row for row, name in enumerate(table.prompt_ids)}
    every = training_questions(TRAINED)
    return {rows[prompt_id(question)]: question for question in every if prompt_id(question) in rows}


def served(folder: Path, made: Plan, problem: Problem, weights: dict[str, Path], requests: int) -> Row:
    """The plan simulated on questions of its table, and on the engines."""
    there = known(problem.quality)
    rows = np.random.default_rng(SEED).choice(sorted(there), requests)
    questions = [there[row] for row in rows]
    at_s = arrivals_s(requests, made.predicted.rate_rps)
    at_once = [0.001 * k for k in range(requests)]

    told_s, _ = simulated(made, problem, trace_of(problem.quality, rows, np.array(at_s)))
    _, ended_s = simulated(made, problem, trace_of(problem.quality, rows, np.array(at_once)))
    with TemporaryDirectory() as logs, Children(Path(logs)) as children:
        fleet = start_fleet(children, made, folder, weights, 0)
        children.wait(limit_s=PATIENCE_S)
        asyncio.run(warm_up_all(fleet))

        def took(when_s: Sequence[float]) -> Floats:
            answers = asyncio.run(asked(fleet.router.url, "cascadia", questions, when_s))
            return np.array([answer.seconds for answer in answers])

        took_s, all_s = took(at_s), took(at_once)
    whole_s = float((np.array(at_once) + all_s).max())
    return Row(made, told_s, took_s, requests / float(ended_s.max()), requests / whole_s)


def apart(rows: Sequence[Row], told: Callable[[Row], float], measured: Callable[[Row], float]) -> str:
    ratios = [told(row) / measured(row) for row in rows]
    return f"{np.median(np.abs(np.array(ratios) - 1)):.0%} in the median, {min(ratios):.2f} to {max(ratios):.2f} times"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--plans", type=int, default=len(BARS) * len(LOADS))
    options = parser.parse_args()
    names = (*(stage.catalogue_name for stage in STAGES), ENCODER)
    weights = {name: fetch(model_named(name)) for name in names}
    rows: list[Row] = []
    with TemporaryDirectory() as place:
        folder = Path(place)
        speeds = kept_speeds()
        if speeds is None:
            speeds = calibrate(
                {stage.name: weights[stage.catalogue_name] for stage in STAGES}, free_cores(), folder
            )
        for bar in BARS:
            for load in LOADS:
                if len(rows) == options.plans:
                    break
                spec = write_example(folder, speeds.paths, weights, load * speeds.rate_rps)
                problem = read_problem(spec)
                problem = replace(problem, objective=replace(problem.objective, quality_min=bar))
                rows.append(served(folder, plan(problem).plan, problem, weights, options.requests))
                print(*rows[-1].cells, file=sys.stderr, flush=True)
    columns = (
        *("bar", "requests/s", "replicas", "p50 simulated, s", "served", "p95 simulated, s", "served"),
        *("all at once, simulated, requests/s", "served"),
    )
    print(markdown(columns, [row.cells for row in rows]))
    for share in (0.5, 0.95):
        told = apart(
            rows,
            lambda row, q=share: float(np.quantile(row.told_s, q)),  # type: ignore[misc]
            lambda row, q=share: float(np.quantile(row.took_s, q)),  # type: ignore[misc]
        )
        print(f"p{share * 100:.0f}: {told}")
    print(f"throughput: {apart(rows, lambda row: row.told_rps, lambda row: row.rps)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

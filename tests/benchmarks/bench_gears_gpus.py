"""GPUs that each system needs for the same quality and attainment under a load that swings (CascadeServe, figure 7).

    python -m tests.benchmarks.bench_gears_gpus [--cells spikes/gemma-qwen ...]

Cells: spikes, `azure_2023_code` and `azure_2023_conv`, ten minutes at 12 requests/s, on two cascades of WildBench;
H100s in nodes of four, at most 64, and a judge that costs nothing. Asked: at least the bar's quality, and 95 % within
25 s.

gears          the plan: the cheapest replicas whose ladder keeps both, single gears ten points below the bar at most
one setting    the plan with `gears: {count: 1}`
dynba          the cheapest model alone that keeps both, by the same search
switching      Model Switching+: two models by measured rate (8 ranges, counted over 5 s), the heavier one DynBa's, in
               two proportions; the fewest nodes of four that keep both, found by bisection
cocktail       one model, autoscaled each 60 or 300 s with a perfect forecast, 60 s to start: the mean over the trace

Plans and DynBa are held to the lower bound on quality, the last two to the mean of the answers, which is easier.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cascadia.domain.cluster import Cluster
from cascadia.domain.problem import Problem
from cascadia.planner.baselines import cascadeserve
from cascadia.planner.baselines.single_model import stand_alone
from cascadia.planner.over_time import systems
from cascadia.planner.over_time.cocktail import cocktail
from cascadia.planner.over_time.settings import Stage
from cascadia.planner.plan import PlanResult, plan
from cascadia.planner.problem.read import read_problem
from cascadia.planner.refinement.refine import EFFORT
from cascadia.reproduce import cases
from cascadia.reproduce.grid import CASCADES, Cascade
from tests.benchmarks import bench_gears
from tests.benchmarks.bench_gears import Swing
from tests.benchmarks.report_table import markdown

SPAN_S, RATE_RPS = 600.0, 12.0
SWINGS = (
    Swing("spikes", "traces/azure_2023_conv.csv", RATE_RPS, spikes=3.2, span_s=SPAN_S),
    Swing("azure-code", "traces/azure_2023_code.csv", RATE_RPS, shape=True, span_s=SPAN_S),
    Swing("azure-conv", "traces/azure_2023_conv.csv", RATE_RPS, shape=True, span_s=SPAN_S),
)
BARS = {"gemma-qwen": 62.0, "phi-qwen": 65.5}
BELOW = 10.0
NODE = 4
POOL = {"gpu": "h100-sxm", "nodes": 16, "gpus_per_node": NODE}
SHARES = (0.2, 0.4)


@dataclass(frozen=True, slots=True)
class Cell:
    swing: Swing
    cascade: Cascade

    @property
    def name(self) -> str:
        return f"{self.swing.name}/{self.cascade.name}"

    @property
    def bar(self) -> float:
        return BARS[self.cascade.name]


def cells() -> Iterator[Cell]:
    for cascade in CASCADES:
        if cascade.name in BARS:
            yield from (Cell(swing, cascade) for swing in SWINGS)


def problem_of(cell: Cell, folder: Path) -> Problem:
    goal = {
        "minimize": "cost",
        "quality_min": cell.bar,
        "quantile": 0.95,
        "latency_max_s": bench_gears.BOUND_S,
    }
    cascade = cell.cascade
    made = cases.case(
        folder,
        cascade.table(),
        cascade.stages,
        trace=cell.swing.trace,
        # Counted are GPUs: by its price an answer would be judged in none of the plans of least cost.
        judge={
            **(cascade.judge or {}),
            "usd_per_million_input_tokens": 0,
            "usd_per_million_output_tokens": 0,
        },
        objective=goal,
        pools=[POOL],
    )
    bench_gears.write_swing(cell.swing, folder)
    made.spec["workload"] = {"trace": "trace.csv"}
    made.spec["under_load"] = {"quality_floor": cell.bar - BELOW, "then": "queue"}
    return read_problem(made.path)


def gpus_of(cell: Cell, folder: Path) -> dict[str, float]:
    """Of each system, NaN where it does not keep both."""
    problem = problem_of(cell, folder)
    geared, single = plan(problem), plan(replace(problem, gears=1))
    stage = Stage(single.search, single.simulator, bench_gears.BOUND_S)
    alone, model = _dynba(single)
    return {
        "gears": geared.chosen.deployment.gpus,
        "one setting": single.chosen.deployment.gpus,
        "dynba": alone,
        "switching": _switching(cell, stage, model, alone),
        "cocktail": _cocktail(cell, stage, problem),
    }


def _dynba(made: PlanResult) -> tuple[float, int]:
    """The fewest GPUs, and the model that needs them."""
    found, bar = [], made.search.problem.objective.quality_min or 0.0
    for s in range(len(made.search.problem.stages)):
        best = stand_alone(made.search, s, EFFORT, with_rate=False).best
        if best is not None and best.quality_lower >= bar and best.latency_s <= bench_gears.BOUND_S:
            found.append((float(best.deployment.gpus), s))
    return min(found, default=(float("nan"), -1))


def _switching(cell: Cell, stage: Stage, heavy: int, alone: float) -> float:
    """As DynBa where no fewer nodes will do."""
    if heavy < 0:
        return float("nan")
    low, high = 1, int(np.ceil(alone / NODE))
    while low < high:
        middle = (low + high) // 2
        if _switching_on(cell, stage, heavy, middle):
            high = middle
        else:
            low = middle + 1
    return min(float(high * NODE), alone)


def _switching_on(cell: Cell, stage: Stage, heavy: int, nodes: int) -> bool:
    (pool,) = stage.search.problem.cluster.pools
    cluster = Cluster((replace(pool, nodes=nodes),))
    search = replace(stage.search, problem=replace(stage.search.problem, cluster=cluster))
    alone = systems.models_alone(search)
    for light in range(heavy):
        for share in SHARES:
            for deployment in cascadeserve.placed(search, {light: share, heavy: 1 - share}, alone[heavy]):
                among = systems.ordered(search, [alone[light], alone[heavy]])
                points = systems.by_rate(
                    "switching", stage, deployment, among=among, quantile=0.95, ranges=(8,), periods_s=(5.0,)
                )
                if any(p.late <= 0.05 and p.quality >= cell.bar for p in points):
                    return True
    return False


def _cocktail(cell: Cell, stage: Stage, problem: Problem) -> float:
    price = problem.cluster.pools[0].usd_per_gpu_hour
    keeps = [p for p in cocktail(stage) if p.late <= 0.05 and p.quality >= cell.bar]
    return min((p.usd_per_hour / price for p in keeps), default=float("nan"))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="GPUs for the same quality and attainment")
    parser.add_argument("--cells", nargs="*", default=[c.name for c in cells()])
    options = parser.parse_args(arguments)
    rows: list[list[str]] = []
    for cell in cells():
        if cell.name not in options.cells:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = gpus_of(cell, Path(folder))
        ours = found["gears"]
        shown = [f"{gpus:.3g} ({gpus / ours:.2f}×)" for name, gpus in found.items() if name != "gears"]
        rows.append([cell.name, f"{cell.bar:g}", f"{ours:.3g}", *shown])
        print(rows[-1], file=sys.stderr, flush=True)
    print(markdown(["cell", "bar", *found], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

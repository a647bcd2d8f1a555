"""A load that swings on GPUs held fixed: our ladder beside one setting, and beside the gears of others.

    python -m tests.benchmarks.bench_gears [--cases spikes azure-code poisson]

gemma-2b, gemma-7b and Qwen1.5-72B on 32 H100s, WildBench's answers, at most 5 % later than 25 s. Traces of twenty
minutes: Poisson with spikes of 3.2 times the rate, `azure_2023_code`, `azure_2023_conv`, and plain Poisson. "single" is
the best setting *chosen with knowledge of the trace* on our replicas; the others are tuned by a grid
(`planner/over_time`), and of their whole grid the points are shown that are best beside ours. Violations are requests
later than 25 s.

Exits with 1 where violations at equal quality are above 0.65 (spikes) or 0.75 (azure-code) of the single setting's, or
where on plain Poisson the ladder has 0.2 points more of them.
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cascadia.cli.compare_over_time import HEADINGS, over_time_rows
from cascadia.domain.problem import Problem
from cascadia.planner.over_time.compare import compare_over_time
from cascadia.planner.over_time.settings import OverTime
from cascadia.planner.plan import plan
from cascadia.planner.problem.read import read_problem
from cascadia.reproduce import cases
from cascadia.reproduce.grid import CASCADES
from cascadia_traces.formats.reading import read_trace
from tests.benchmarks.report_table import markdown
from tests.data import data_path

GEMMA = CASCADES[0]
BOUND_S = 25.0
QUANTILE = 0.95
FLOOR = 45.0
AT_MOST = {"spikes": 0.65, "azure-code": 0.75}
MUCH_LATER = 0.002


SPAN_S = 1200.0
"""Each trace is of twenty minutes."""
JITTER_S = 2.0


@dataclass(frozen=True, slots=True)
class Swing:
    """`spikes`: half a minute in every five has so many times the rate of the rest. `shape`: the trace's own arrivals,
    pressed into the span and multiplied; else a Poisson stream, with spikes or without."""

    name: str
    trace: str
    rate_rps: float
    spikes: float = 1.0
    shape: bool = False
    span_s: float = SPAN_S

    def arrivals_s(self, own_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """`own_s` are the trace's, from 0 on."""
        rng = np.random.default_rng(7)
        count = round(self.rate_rps * self.span_s)
        if self.shape:
            drawn = rng.choice(own_s * (self.span_s / own_s[-1]), count) + rng.normal(0.0, JITTER_S, count)
            return np.sort(np.clip(drawn, 0.0, self.span_s))
        clock_s = np.arange(0.0, self.span_s, 0.1)
        load = np.where(clock_s % 300.0 < 270.0, 1.0, self.spikes)
        done = np.concatenate([[0.0], np.cumsum(load)]) / load.sum()
        found: NDArray[np.float64] = np.interp(
            np.sort(rng.random(count)), done, np.append(clock_s, self.span_s)
        )
        return found


SWINGS = (
    Swing("spikes", "traces/azure_2023_conv.csv", 24.0, spikes=3.2),
    Swing("azure-code", "traces/azure_2023_code.csv", 34.0, shape=True),
    Swing("azure-conv", "traces/azure_2023_conv.csv", 24.0, shape=True),
    Swing("poisson", "traces/azure_2023_conv.csv", 30.0),
)


def problem_of(swing: Swing, folder: Path) -> Problem:
    goal = {"maximize": "quality", "quantile": QUANTILE, "latency_max_s": BOUND_S}
    made = cases.case(
        folder, GEMMA.table(), GEMMA.stages, trace=swing.trace, judge=GEMMA.judge, objective=goal
    )
    write_swing(swing, folder)
    made.spec["workload"] = {"trace": "trace.csv"}
    made.spec["under_load"] = {"quality_floor": FLOOR, "then": "queue"}
    return read_problem(made.path)


def write_swing(swing: Swing, folder: Path) -> None:
    """The trace, into `folder`/trace.csv."""
    own = read_trace(data_path(swing.trace))
    arrival_s = swing.arrivals_s(own.arrival_s - own.arrival_s[0])
    again = np.resize(np.arange(len(own)), len(arrival_s))
    np.savetxt(
        folder / "trace.csv",
        np.column_stack([arrival_s, own.input_tokens[again], own.output_tokens[again]]),
        fmt=("%.6f", "%d", "%d"),
        delimiter=",",
        header="arrival_s,input_tokens,output_tokens",
        comments="",
    )


def shown(swing: Swing, folder: Path) -> bool:
    """Prints one trace's table; whether it misses what is asked."""
    problem = problem_of(swing, folder)
    found = compare_over_time(plan(problem))
    print(f"\n### {swing.name}: {len(problem.workload)} requests at {problem.workload.rate_rps:.1f}/s\n")
    print(markdown(HEADINGS, over_time_rows(found), text_columns=1), flush=True)
    return misses(swing, found.ours, next(b.as_good for b in found.beside if b.name == "single"))


def misses(swing: Swing, ladder: OverTime, rival: OverTime | None) -> bool:
    if rival is None:
        print("no single setting is as good")
        return False
    if swing.name not in AT_MOST:
        missed = ladder.late > rival.late + MUCH_LATER
        print(f"{'FAIL' if missed else 'PASS'}: {ladder.late - rival.late:+.2%} late beside a single setting")
        return missed
    ratio = ladder.late / max(rival.late, 1e-9)
    missed = ratio > AT_MOST[swing.name]
    print(f"{'FAIL' if missed else 'PASS'}: {ratio:.2f}x the violations, asked <= {AT_MOST[swing.name]}x")
    return missed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="A load that swings on GPUs held fixed")
    parser.add_argument("--cases", nargs="*", default=[s.name for s in SWINGS])
    options = parser.parse_args(arguments)
    missed = False
    for swing in SWINGS:
        if swing.name in options.cases:
            with tempfile.TemporaryDirectory() as folder:
                missed |= shown(swing, Path(folder))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

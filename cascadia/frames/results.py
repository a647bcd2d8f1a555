"""Results of a simulation, as a DataFrame."""

from math import inf
from pathlib import Path

import numpy as np
import pandas as pd

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Plan
from cascadia.files.plan_file import read_plan
from cascadia.frames.inputs import frame_trace
from cascadia.planner.problem.join import at_rate
from cascadia.planner.problem.points import read_as_planned
from cascadia.planner.problem.trace_file import read_trace_for, told_as_ours
from cascadia.planner.replay.replay import replay

PS = 1e-12


def simulate(
    plan: str | Path,
    trace: str | Path | pd.DataFrame,
    *,
    rate_rps: float | None = None,
    quality_table: str | Path | None = None,
    seed: int | None = None,
) -> pd.DataFrame:
    """One row a request of `trace` (a file, or a frame of `read_trace`), replayed on `plan` (a plan.json, or its
    folder) as `cascadia simulate` does: `arrival_s`, `ttft_s` and `e2e_s` (seconds from arrival to the first byte and
    to the whole answer at the user), the `stage` that wrote the answer, `input_tokens`, and the `gear` that the request
    got where gears are played. A trace that is short beside its latencies is played several rounds, each with rows of
    its own.

    Paths through the cascade are drawn from the plan's shares (seeded), or decided by the scores of `quality_table`.
    Raises `BadInput`.
    """
    folder = Path(plan) if Path(plan).is_dir() else Path(plan).parent
    return simulated(
        read_plan(Path(plan)), folder, trace, rate_rps=rate_rps, quality_table=quality_table, seed=seed
    )


def simulated(
    plan: Plan,
    folder: Path,
    trace: str | Path | pd.DataFrame,
    *,
    rate_rps: float | None,
    quality_table: str | Path | None,
    seed: int | None,
) -> pd.DataFrame:
    """The same of a plan in hand, whose relative paths start at `folder`."""
    names = [stage.name for stage in plan.stages]
    if rate_rps is not None and not 0 < rate_rps < inf:
        raise BadInput("rate_rps", f"{rate_rps} is no rate", "write a finite number above 0")
    if seed is not None and seed < 0:
        raise BadInput("seed", f"{seed} is below 0", "write a whole number from 0 on")
    if isinstance(trace, pd.DataFrame):
        requests = frame_trace(trace)
        with told_as_ours():
            requests = requests if rate_rps is None else at_rate(requests, rate_rps, "rate_rps")
    else:
        requests, _ = read_trace_for(Path(trace), None, rate_rps, plan.seed, plan)
    scale = None if plan.judge.scale == 100.0 else plan.judge.scale
    table = None if quality_table is None else read_as_planned(plan, Path(quality_table), scale)
    result = replay(plan, requests, folder=folder, table=table, seed=seed)
    run = result.run
    columns = {
        "arrival_s": run.arrival_ps * PS,
        "ttft_s": (run.first_byte_ps - run.arrival_ps) * PS,
        "e2e_s": run.latency_ps * PS,
        "stage": pd.Categorical.from_codes(run.answered_by.tolist(), pd.Index(names), ordered=True),
        "input_tokens": np.resize(requests.input_tokens, run.arrival_ps.size),
        "gear": result.gear,
    }
    return pd.DataFrame({name: column for name, column in columns.items() if column is not None})

"""Results of a simulation, as a DataFrame."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Plan
from cascadia.files.plan_file import read_plan
from cascadia.frames.inputs import check_format, check_seed, frame_trace, is_above_0
from cascadia.planner.policies.replayed import run_policies
from cascadia.planner.problem.join import at_rate
from cascadia.planner.problem.points import read_as_planned
from cascadia.planner.problem.trace_file import read_trace_for, told_as_ours
from cascadia.planner.replay.replay import replay
from cascadia_traces.trace import Trace

PS = 1e-12


def simulate(
    plan: str | Path,
    trace: str | Path | pd.DataFrame,
    format: str | None = None,
    *,
    rate_rps: float | None = None,
    quality_table: str | Path | None = None,
    foresight: str | Path | None = None,
    seed: int | None = None,
) -> pd.DataFrame:
    """One row a request of `trace` (a file, or a frame of `read_trace`), replayed on `plan` (a plan.json, or its
    folder) as `cascadia simulate` does: `arrival_s`, `ttft_s` and `e2e_s` (seconds from arrival to the first byte and
    to the whole answer at the user), the `stage` that wrote the answer, `input_tokens`, and the `gear` that the request
    got where gears are played. A trace that is short beside its latencies is played several rounds, each with rows of
    its own. The file that the plan was made for is played at the plan's rate where none is given, all else at its own.

    Paths through the cascade are drawn from the plan's shares (seeded), or decided by the scores of `quality_table`,
    with the file `foresight` that the plan was made with where the table has no column `foreseen`. Of models that
    answer in one pass the plan's policies decide; who is refused has an infinite `e2e_s` and no stage. Raises
    `BadInput`.
    """
    folder = Path(plan) if Path(plan).is_dir() else Path(plan).parent
    asked = Asked(format, rate_rps, quality_table, foresight, seed)
    return simulated(read_plan(Path(plan)), folder, trace, asked)


class Asked(NamedTuple):
    """How a trace is to be played: arguments of `simulate`, of their names."""

    format: str | None = None
    rate_rps: float | None = None
    quality_table: str | Path | None = None
    foresight: str | Path | None = None
    seed: int | None = None


def simulated(plan: Plan, folder: Path, trace: str | Path | pd.DataFrame, asked: Asked) -> pd.DataFrame:
    """The same of a plan in hand, whose relative paths start at `folder`."""
    _check(asked, one_pass=bool(plan.policies), framed=isinstance(trace, pd.DataFrame))
    rate_rps, quality_table, seed = asked.rate_rps, asked.quality_table, asked.seed
    if isinstance(trace, pd.DataFrame):
        requests = frame_trace(trace)
        with told_as_ours():
            requests = requests if rate_rps is None else at_rate(requests, rate_rps, "rate_rps")
    else:
        requests, _ = read_trace_for(Path(trace), asked.format, rate_rps, plan.seed, plan)
    if plan.policies:
        return _in_one_pass(plan, requests)
    scale = None if plan.judge.scale == 100.0 else plan.judge.scale
    foresight = None if asked.foresight is None else Path(asked.foresight)
    table = (
        None
        if quality_table is None
        else read_as_planned(plan, Path(quality_table), scale, foresight=foresight)
    )
    result = replay(plan, requests, folder=folder, table=table, seed=seed)
    run = result.run
    names = [stage.name for stage in plan.stages]
    columns = {
        "arrival_s": run.arrival_ps * PS,
        "ttft_s": (run.first_byte_ps - run.arrival_ps) * PS,
        "e2e_s": run.latency_ps * PS,
        "stage": pd.Categorical.from_codes(run.answered_by.tolist(), pd.Index(names), ordered=True),
        "input_tokens": np.resize(requests.input_tokens, run.arrival_ps.size),
        "gear": result.gear,
    }
    return pd.DataFrame({name: column for name, column in columns.items() if column is not None})


def _check(asked: Asked, *, one_pass: bool, framed: bool) -> None:
    """Raises `BadInput` for a value that is none, and for an argument that would say nothing."""
    rate_rps, seed = asked.rate_rps, asked.seed
    check_format(asked.format)
    if rate_rps is not None and not is_above_0(rate_rps):
        raise BadInput("rate_rps", f"{rate_rps!r} is no rate", "write a finite number above 0")
    if seed is not None:
        check_seed(seed)
    if asked.foresight is not None and asked.quality_table is None:
        raise BadInput("foresight", "says nothing without a quality_table", "give both")
    if framed and asked.format is not None:
        raise BadInput("format", "says nothing of a frame", "leave it out")
    for name in ("quality_table", "seed"):
        if one_pass and getattr(asked, name) is not None:
            raise BadInput(name, "says nothing to models that answer in one pass", "leave it out")


def _in_one_pass(plan: Plan, requests: Trace) -> pd.DataFrame:
    """Rows of requests that the plan's policies serve: the whole answer comes at once."""
    policies, _, run = run_policies(plan, requests.arrival_s)
    names = [stage.name for stage in plan.stages]
    place = np.array([names.index(name) for name in policies.models])
    stage = np.where(np.isfinite(run.latency_s), place[run.model], -1)
    columns = {
        "arrival_s": requests.arrival_s,
        "ttft_s": run.latency_s,
        "e2e_s": run.latency_s,
        "stage": pd.Categorical.from_codes(stage.tolist(), pd.Index(names), ordered=True),
        "input_tokens": requests.input_tokens,
    }
    return pd.DataFrame(columns)

"""The planner as the days use it: in a process of its own, each question asked once."""

import hashlib
import json
import shutil
from pathlib import Path

from cascadia.controller.decide.replan import (
    PLAN,
    RESULT,
    PlanningFailed,
    Replanned,
    Request,
    read_result,
    replan,
)
from cascadia.domain.problem import Problem
from cascadia.files.plan_file import write_plan
from cascadia.planner.plan import plan
from cascadia.planner.problem.quality_file import write_quality
from cascadia.planner.problem.read import read_problem
from cascadia.planner.spec.model import Spec
from cascadia.planner.spec.overrides import Overrides
from cascadia.reproduce.adapt.days import LABELLED, Day
from cascadia.reproduce.adapt.fleet import SimulatedFleet
from cascadia_traces.formats.writing import write_trace
from cascadia_traces.trace import Trace

ANY_S = 7200.0
"""Here, whatever the limit on its clock: others may use this machine."""
PLANNED_S = 900.0
"""Of a regime's traffic; the rate is that of all of it."""


class KeptPlanner:
    """A `Replanner` that takes `planning_s` on the fleet's clock, whatever it takes here.

    What was found is kept in `folder`, by what was asked, so that a run which was cut off goes on.
    """

    def __init__(self, folder: Path, fleet: SimulatedFleet, planning_s: float) -> None:
        self.folder = folder
        self.fleet = fleet
        self.planning_s = planning_s

    async def __call__(self, request: Request, limit_s: float) -> Replanned:
        kept = self.folder / _key(request)
        if not (kept / RESULT).exists():
            shutil.rmtree(kept, ignore_errors=True)
            try:
                found = await replan(request, ANY_S)
                shutil.copytree(found.plan.parent, kept)
            except PlanningFailed as error:
                kept.mkdir(parents=True)
                (kept / RESULT).write_text(json.dumps({"error": str(error)}))
        await self.fleet.pass_until(self.fleet.now_s + self.planning_s)
        return read_result(kept)


def _key(request: Request) -> str:
    digest = hashlib.sha256()
    for path in (request.trace, request.table, request.today, request.spec):
        digest.update(path.read_bytes() if path is not None else b"-")
    asked = [request.rate_rps, dict(request.gpus), request.seed, request.headroom, request.latency_room]
    digest.update(json.dumps(asked).encode())
    return digest.hexdigest()[:20]


def plan_for(day: Day, folder: Path, from_s: float, until_s: float, rate_rps: float | None = None) -> Path:
    """Path of what the planner makes of the day's traffic between two times; at `rate_rps`, or its own."""
    out = folder / f"{from_s:.0f}-{until_s:.0f}" / PLAN
    if not out.exists():
        write_plan(plan(problem_for(day, folder, from_s, until_s, rate_rps)).plan, out)
    return out


def problem_for(
    day: Day, folder: Path, from_s: float, until_s: float, rate_rps: float | None = None
) -> Problem:
    folder = folder / f"{from_s:.0f}-{until_s:.0f}"
    part = day.part(from_s, until_s)
    own_rps = (part.stop - part.start) / (until_s - from_s)
    rate_rps = rate_rps or own_rps
    stretch = slice(part.start, min(part.stop, part.start + round(PLANNED_S * own_rps)))
    arrival_s = day.trace.arrival_s[stretch]
    trace = Trace(arrival_s - arrival_s[0], day.trace.input_tokens[stretch], day.trace.output_tokens[stretch])
    spec = day.write(folder)
    write_trace(trace, folder / "trace.parquet")
    write_quality(day.table_of(part, LABELLED), folder / "quality.parquet")

    def change(spec: Spec) -> Spec:
        workload = spec.workload.model_copy(update={"trace": "trace.parquet"})
        return Overrides(rate_rps=rate_rps)(spec.model_copy(update={"workload": workload}))

    return read_problem(spec, change)

"""Planning anew, in a process of its own with a time limit: the controller goes on watching, and a planner that hangs
or needs too much is ended.

The child reads a request, plans for today's traffic, and simulates both plans on the same requests.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascadia.controller.decide.decide import Forecast
from cascadia.controller.decide.gpus_left import on_gpus
from cascadia.controller.decide.misses import Misses, misses
from cascadia.domain.deadline import PLANNED, TIME_LIMIT_S, Deadline
from cascadia.domain.errors import CascadiaError, Infeasible, OutOfTime
from cascadia.files.text import write_whole

if TYPE_CHECKING:
    from cascadia.domain.plan import JudgePlan, Plan
    from cascadia.domain.quality import QualityTable
    from cascadia_traces.trace import Trace

WITH_ROOM = 0.7
"""Share of the search's time for a plan with room; the rest is for one without, where there is none."""

CHILD = "import sys; from cascadia.controller.decide.replan import main; main(sys.argv[1])"
REQUEST, RESULT, PLAN = "request.json", "result.json", "plan.json"


class PlanningFailed(CascadiaError):
    """No new plan; the message says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """`trace`: today's requests, to be replayed at `rate_rps`; `table`: fresh scores, the spec's where None.

    `today`: the plan in force; `gpus`: by pool, those there are; `out`: an empty folder for what comes of it. Where the
    objective bounds latency the new plan is made for `headroom` (0-1) more requests, and leaves `latency_room` (0-1) of
    each bound free, if that can be. `learned`: by stage (and `judge`) and GPU, how many times as long as its
    calibration says everything takes. `time_limit_s`: after which planning is ended; the best plan found some time
    before is taken.
    """

    spec: Path
    trace: Path
    rate_rps: float
    today: Path
    gpus: Mapping[str, int]
    out: Path
    table: Path | None = None
    seed: int = 0
    headroom: float = 0.0
    latency_room: float = 0.0
    learned: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    time_limit_s: float = TIME_LIMIT_S


@dataclass(frozen=True, slots=True)
class Prospect:
    """A plan on today's traffic: how well it does, and what each stage has to do."""

    forecast: Forecast
    need_rps: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replanned:
    plan: Path
    today: Prospect
    candidate: Prospect


async def replan(request: Request, limit_s: float) -> Replanned:
    """Raises `PlanningFailed`, also where it takes longer than `limit_s`."""
    request.out.mkdir(parents=True, exist_ok=True)
    limited = replace(request, time_limit_s=limit_s)
    (request.out / REQUEST).write_text(json.dumps(_document(limited)))
    with (request.out / "planning.log").open("wb") as log:
        child = await asyncio.create_subprocess_exec(
            # -P: a folder called cascadia where the controller was started would be taken for the package.
            sys.executable,
            "-P",
            "-c",
            CHILD,
            str(request.out),
            stdout=log,
            stderr=log,
            # A group of its own, so that what the planner has started is ended with it.
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(limit_s):
                await child.wait()
        except TimeoutError:
            raise PlanningFailed(f"planning took longer than {limit_s:g} s") from None
        finally:
            if child.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                await child.wait()
    if not (request.out / RESULT).exists():
        raise PlanningFailed(
            f"planning ended with exit code {child.returncode}; see {request.out / 'planning.log'}"
        )
    return read_result(request.out)


def read_result(folder: Path) -> Replanned:
    """Reads what the child left in `folder`. Raises `PlanningFailed` where it found no plan."""
    document = json.loads((folder / RESULT).read_text())
    if "error" in document:
        raise PlanningFailed(document["error"])
    return Replanned(folder / PLAN, _prospect(document["today"]), _prospect(document["candidate"]))


def main(folder: str) -> None:
    """The child."""
    out = Path(folder)
    request = _request(json.loads((out / REQUEST).read_text()))
    try:
        result = _replanned(request)
    except CascadiaError as error:
        result = {"error": str(error)}
    write_whole(out / RESULT, json.dumps(result))


def _replanned(request: Request) -> dict[str, Any]:
    from cascadia.planner.spec.file import answers_in_one_pass

    if answers_in_one_pass(request.spec):
        from cascadia.controller.decide.replan_one_pass import replan_one_pass

        return replan_one_pass(request, request.out / PLAN)
    return _replanned_cascade(request)


def _replanned_cascade(request: Request) -> dict[str, Any]:
    from cascadia.controller.decide.prices import at_prices, prices_of
    from cascadia.controller.speed.as_served import plan_as_served, problem_as_served, problem_as_started
    from cascadia.domain.problem import Problem
    from cascadia.files.plan_file import read_plan, write_plan
    from cascadia.planner.plan import plan
    from cascadia.planner.problem.read import read_problem
    from cascadia.planner.problem.trace_file import read_trace_for
    from cascadia.planner.spec.model import Spec
    from cascadia.planner.spec.overrides import Overrides

    def problem_at(rate_rps: float) -> Problem:
        problem = read_problem(request.spec, partial(change, rate_rps))
        return problem_as_served(problem_as_started(problem, running), request.learned)

    def change(rate_rps: float, spec: Spec) -> Spec:
        workload = spec.workload.model_copy(update={"trace": str(request.trace), "format": None})
        table = spec.quality.table if request.table is None else str(request.table)
        # The router's own scores are of 100, whatever the spec's table was on.
        scale = spec.quality.scale if request.table is None else None
        quality = spec.quality.model_copy(update={"table": table, "scale": scale})
        # A router's samples say nothing of what an answer would have been at an exit.
        whole = tuple(stage.model_copy(update={"exits": ()}) for stage in spec.stages)
        stages = spec.stages if request.table is None else whole
        promise = spec.exits if request.table is None else None
        told = {"workload": workload, "quality": quality, "stages": stages, "exits": promise}
        changed = spec.model_copy(update=told)
        return Overrides(rate_rps=rate_rps)(on_gpus(changed, request.gpus))

    deadline = Deadline(request.time_limit_s * PLANNED)
    running = read_plan(request.today)
    _remember_prefixes(request)
    problem = problem_at(request.rate_rps)
    bounded = bool(problem.objective.bounds)
    try:
        wider = problem_at(request.rate_rps * (1.0 + request.headroom)) if bounded else problem
        wider = replace(wider, objective=wider.objective.times(1.0 - request.latency_room))
        # Its bounds are lower by the room already.
        found = plan(wider, deadline=deadline.part(WITH_ROOM if bounded else 1.0), room=0.0).plan
        found = replace(found, objective=problem.objective)
    except (Infeasible, OutOfTime):
        if not bounded:
            raise
        found = plan(problem, deadline=deadline).plan
    before = plan_as_served(at_prices(running, prices_of(found)), request.learned)
    if request.table is not None:
        # The same judge in the same router: who made the scores, and on which scale, has not changed.
        found = replace(found, judge=of_the_same_judge(found.judge, before.judge))
    write_plan(found, request.out / PLAN)
    trace, _ = read_trace_for(request.trace, None, request.rate_rps, request.seed)
    folder = request.spec.parent
    return {
        "today": prospect_of(before, trace, problem.quality, folder, request.seed),
        "candidate": prospect_of(found, trace, problem.quality, folder, request.seed),
    }


def _remember_prefixes(request: Request) -> None:
    """Today's requests share prefixes as those of the spec's trace do, where it is there and an engine keeps them."""
    from cascadia.controller.decide.traffic_to_plan import with_prefixes
    from cascadia.files.homes import named_path
    from cascadia.planner.problem.trace_file import read_trace_for
    from cascadia.planner.spec.file import read_spec
    from cascadia_traces.formats.writing import write_trace

    spec = read_spec(request.spec)
    path = named_path(request.spec.parent, spec.workload.trace)
    if path.exists() and any(stage.prefix_cache_hit_rate for stage in spec.stages):
        before, _ = read_trace_for(path, spec.workload.format, None, request.seed)
        today, _ = read_trace_for(request.trace, None, None, request.seed)
        write_trace(with_prefixes(today, before), request.trace)


def of_the_same_judge(planned: "JudgePlan", before: "JudgePlan") -> "JudgePlan":
    return replace(planned, scale=before.scale, prompt_version=before.prompt_version)


def prospect_of(
    plan: "Plan", trace: "Trace", table: "QualityTable", folder: Path, seed: int
) -> dict[str, Any]:
    """`plan` simulated on `trace`, as JSON. A plan that cannot serve these requests at all has no finite loss."""
    from cascadia.domain.errors import BadInput
    from cascadia.planner.replay.replay import replay

    told = {"gpus": plan.gpus_by_pool(), **_named(plan)}
    try:
        result = replay(plan, trace, folder=folder, table=table, seed=seed)
    except (BadInput, OverflowError):
        # A backlog that grows for ever runs out of the simulator's 106 days: no crash, but a load that is not
        # served.
        return {**told, "loss": None, "misses": Misses(load=1.0), "need_rps": {}}
    predicted, objective = result.predicted, plan.objective
    loss = {
        "latency": predicted.objective_s,
        "cost": predicted.usd_per_hour,
        "quality": 100.0 - predicted.quality.mean,
        "rate": 100.0 * max(stage.load or 0.0 for stage in predicted.stages),
    }[objective.goal]
    missed = misses(predicted, objective, holds=result.certificate.holds)
    return {**told, "loss": loss, "misses": missed, "need_rps": predicted.rates_rps()}


def _named(plan: "Plan") -> dict[str, str]:
    match plan.objective.goal:
        case "latency":
            return {"what": f"p{100 * plan.objective.quantile:g}", "unit": "s"}
        case "cost":
            return {"what": "cost", "unit": "$/h"}
        case "rate":
            return {"what": "capacity in use", "unit": "%"}
        case _:
            return {"what": "quality lost", "unit": "points"}


def _prospect(document: Mapping[str, Any]) -> Prospect:
    loss = float("inf") if document["loss"] is None else float(document["loss"])
    forecast = Forecast(
        loss, Misses(*document["misses"]), document["gpus"], document["what"], document["unit"]
    )
    return Prospect(forecast, document["need_rps"])


def _document(request: Request) -> dict[str, Any]:
    paths = {name: str(getattr(request, name).resolve()) for name in ("spec", "trace", "today", "out")}
    table = None if request.table is None else str(request.table.resolve())
    others = {"rate_rps": request.rate_rps, "gpus": dict(request.gpus), "seed": request.seed}
    others |= {
        "headroom": request.headroom,
        "latency_room": request.latency_room,
        "time_limit_s": request.time_limit_s,
        "learned": {s: dict(f) for s, f in request.learned.items()},
    }
    return {**paths, **others, "table": table}


def _request(document: Mapping[str, Any]) -> Request:
    paths = {name: Path(document[name]) for name in ("spec", "trace", "today", "out")}
    table = None if document["table"] is None else Path(document["table"])
    return Request(
        rate_rps=document["rate_rps"],
        gpus=document["gpus"],
        seed=document["seed"],
        headroom=document["headroom"],
        latency_room=document["latency_room"],
        learned=document["learned"],
        time_limit_s=document["time_limit_s"],
        table=table,
        **paths,
    )

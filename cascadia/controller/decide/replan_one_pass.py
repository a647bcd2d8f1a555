"""Planning anew of models that answer in one pass: other workers and other policies for today's requests.

Both plans are played on the same requests, as `cascadia policy` played its own. What is compared are the workers' price
(or how many there are, where they cost nothing), or the answers that are wrong, as the objective says.
"""

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from cascadia.controller.decide.misses import Misses, missed_quality
from cascadia.controller.decide.prices import at_prices, prices_of
from cascadia.domain.errors import BadInput, Infeasible
from cascadia.files.plan_file import read_plan, write_plan
from cascadia.planner.policies.planned import plan_one_pass
from cascadia.planner.policies.read import Asked, read_asked
from cascadia.planner.policies.replayed import replay_policies
from cascadia.planner.problem.trace_file import read_trace_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cascadia.domain.plan import Plan
    from cascadia.domain.workload import Floats
    from cascadia.planner.spec.policy import PolicySpec


class AskedAnew(Protocol):
    """The part of a request to plan anew that says something to models that answer in one pass."""

    @property
    def spec(self) -> "Path": ...
    @property
    def trace(self) -> "Path": ...
    @property
    def rate_rps(self) -> float: ...
    @property
    def today(self) -> "Path": ...
    @property
    def gpus(self) -> "Mapping[str, int]": ...
    @property
    def seed(self) -> int: ...
    @property
    def headroom(self) -> float: ...


def replan_one_pass(request: AskedAnew, plan_path: "Path") -> dict[str, Any]:
    """Writes the new plan; returns both prospects as JSON. Raises `BadInput` and `Infeasible`."""
    running = read_plan(request.today)
    lengths = {stage.name: stage.max_model_len for stage in running.stages}

    def asked_at(rate_rps: float) -> Asked:
        return read_asked(request.spec, partial(_changed, request, rate_rps))

    asked = asked_at(request.rate_rps)
    for stage in asked.spec.stages:
        if stage.name not in lengths:
            raise BadInput(
                f"{request.spec.name}: stage {stage.name}", "is not in the plan in force", "plan by hand"
            )
    folder = request.spec.parent
    try:
        found = plan_one_pass(asked_at(request.rate_rps * (1.0 + request.headroom)), folder, lengths).plan
    except Infeasible:
        found = plan_one_pass(asked, folder, lengths).plan
    write_plan(found, plan_path)
    trace, _ = read_trace_for(request.trace, None, request.rate_rps, request.seed)
    before = at_prices(running, prices_of(found))
    priced = any(pool.usd_per_gpu_hour for pool in found.cluster.pools)
    return {
        "today": _prospect(before, trace.arrival_s, asked.wanted.late_max, priced=priced),
        "candidate": _prospect(found, trace.arrival_s, asked.wanted.late_max, priced=priced),
    }


def _changed(request: AskedAnew, rate_rps: float, spec: "PolicySpec") -> "PolicySpec":
    """The spec with today's requests, on the workers that there are."""
    told = {"trace": str(request.trace), "format": None, "rate_rps": rate_rps}
    there = {worker.kind: request.gpus.get(worker.kind, worker.most) for worker in spec.workers}
    workers = tuple(
        worker.model_copy(update={"most": min(worker.most, there[worker.kind])})
        for worker in spec.workers
        if there[worker.kind] > 0
    )
    if not workers:
        raise Infeasible("workers", "none are left")
    workload = spec.workload.model_copy(update=told)
    return spec.model_copy(update={"workload": workload, "workers": workers})


def _prospect(plan: "Plan", arrival_s: "Floats", late_max: float, *, priced: bool) -> dict[str, Any]:
    """`plan` played on today's requests."""
    predicted, outcome, _ = replay_policies(plan, arrival_s)
    gpus = plan.gpus_by_pool()
    usd = sum(count * plan.cluster.pool(name).usd_per_gpu_hour for name, count in gpus.items())
    if plan.objective.goal == "quality":
        told: dict[str, Any] = {"loss": 100.0 - outcome.accuracy, "what": "quality lost", "unit": "points"}
    elif priced:
        told = {"loss": usd, "what": "cost", "unit": "$/h"}
    else:
        told = {"loss": float(sum(gpus.values())), "what": "workers", "unit": "in all"}
    missed = Misses(
        quality=missed_quality(outcome.accuracy, plan.objective.quality_min),
        latency=max(outcome.late - late_max, 0.0),
    )
    need_rps = {policies.group: predicted.rate_rps for policies in plan.policies}
    return {**told, "gpus": gpus, "misses": missed, "need_rps": need_rps}

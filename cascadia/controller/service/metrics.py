"""Metrics of a controller for Prometheus. Names and labels are documented in docs/reference/controller.md,
which a test compares with this.

Events are counted from what the history is told, so that both say the same; states are set after each pass of the loop.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from cascadia.controller.decide.decide import Forecast
from cascadia.controller.decide.planning import Replanner
from cascadia.controller.decide.replan import PlanningFailed, Replanned, Request
from cascadia.controller.loop import Controller
from cascadia.controller.memory.history import Entry
from cascadia.controller.move.backend import Backend
from cascadia.controller.move.carry_out import Fleet
from cascadia.controller.move.state import Desired, Observed, planned_stage
from cascadia.controller.move.steps import Step
from cascadia.controller.scale.scaler import Scaler
from cascadia.controller.speed.watch import SpeedWatch

Doing = Literal["standby", "watching", "holding", "planning", "moving"]

STALE_S = 120.0
"""Without a pass that went well, before a controller that leads is not ready."""
PLAN_SECONDS = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
MOVE_SECONDS = (5.0, 15.0, 60.0, 180.0, 600.0, 1200.0, 2400.0, 4800.0, 9600.0)
MOVE_ENDS = ("moved", "rolled-back", "failed")


class Figures:
    """A registry of its own, so that two controllers in one process do not share figures. `clock` is Unix time,
    `steady_s` counts seconds that pass, whoever sets that."""

    def __init__(
        self,
        speeds: SpeedWatch | None = None,
        clock: Callable[[], float] = time.time,
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.registry = CollectorRegistry()
        self._speeds = speeds
        self._clock = clock
        self._steady_s = steady_s
        self._leads: Callable[[], bool] = lambda: False
        self._led_at_s: float | None = None
        self._began_s: float | None = None
        self._trouble = ""
        self._planned: dict[Path, Mapping[str, int]] = {}
        self._there: Mapping[str, int] = {}
        self.doing: Doing = "standby"
        ProcessCollector(registry=self.registry)
        self._gauge("leads", "1 where this controller acts.").set_function(lambda: float(self.leads))
        state = self._gauge("state", "1 for what it does now.", "doing")
        for doing in get_args(Doing):
            state.labels(doing).set_function(partial(self._does, doing))
        self.last_success = self._gauge(
            "last_success_timestamp_seconds", "End of the last pass without error."
        )
        self.last_decision = self._gauge("last_decision_timestamp_seconds", "Of the last decision.")
        self.errors = self._counter("errors", "Passes of the loop that failed.", "kind")
        self.alarm = self._gauge("alarm", "1 while a change of traffic waits for its decision.")
        self.alarms = self._counter("alarms", "Changes noticed.", "watched")
        self.decisions = self._counter("decisions", "Decisions taken.", "action")
        self.moves = self._counter("moves", "Moves that ended.", "result")
        self.move_seconds = self._histogram(
            "move_seconds", "From a move's first step to its end.", MOVE_SECONDS
        )
        self.holds = self._counter("holds", "Times that the plan in force had to be made so again.", "result")
        self.plan_seconds = self._histogram("plan_seconds", "Planning anew.", PLAN_SECONDS)
        self.plan_failures = self._counter("plan_failures", "Times that planning anew gave no plan.")
        self.forecast_rate = self._gauge("forecast_rate_rps", "Requests a second that were planned for last.")
        self.forecast_loss = self._gauge(
            "forecast_loss", "Simulated on today's traffic.", "plan", "what", "unit"
        )
        self.forecast_holds = self._gauge(
            "forecast_keeps_bounds", "1 where that keeps the objective's.", "plan"
        )
        self.plan_gpus = self._gauge("plan_gpus", "GPUs that the plan in force takes.", "pool")
        self.cluster_gpus = self._gauge("cluster_gpus", "GPUs that there are.", "pool")
        self.plan_in_force = self._gauge("plan_in_force", "1 for the plan in force.", "plan")
        self.speed = self._gauge(
            "replica_slowness", "Time an iteration takes, over planned.", "stage", "replica"
        )
        self.drift = self._gauge("drift", "1 for who is not as fast as planned, or as its siblings.", "about")
        self.scale_rate = self._gauge("scale_rate_rps", "Requests a second that replicas are added for.")
        foretold = "Requests a second that the days before foretell, as far as they count; 0 where they tell nothing."
        self.scale_foretold = self._gauge("scale_foretold_rps", foretold)
        self.scale_wanted = self._gauge("scale_replicas", "Replicas that the load asks for.", "stage")
        self.scale_short = self._gauge("scale_short", "1 while there are no GPUs for more of them.")
        self.scalings = self._counter(
            "scalings", "Times that the number of replicas was changed for the load."
        )
        self.events_lost = self._counter("events_lost", "Kubernetes Events not written.", "reason")
        for counter, labels in (
            (self.errors, ("api", "step", "input", "samples")),
            (self.alarms, ("rate", "gpus", "promise", "scores", "scale")),
            (self.decisions, ("move", "keep")),
            (self.moves, MOVE_ENDS),
            (self.holds, ("held", "failed")),
            (self.events_lost, ("rate", "api")),
        ):
            for label in labels:
                counter.labels(label)

    def _does(self, doing: Doing) -> float:
        return float(self.doing == doing)

    @property
    def leads(self) -> bool:
        return self._leads()

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def trouble(self) -> str:
        """Reason why this controller is not ready; empty where it is. Who stands by is, and who is in the
        middle of a move.
        """
        if not self.leads or self._led_at_s is None or self.doing in ("moving", "planning", "holding"):
            return ""
        since_s = self._steady_s() - self._led_at_s
        if since_s <= STALE_S:
            return ""
        return f"no pass has gone well for {since_s:.0f} s" + (f": {self._trouble}" if self._trouble else "")

    def begin(self, leads: Callable[[], bool]) -> None:
        """Marks the controller as acting from now on, while `leads` holds."""
        self._leads, self._led_at_s, self.doing = leads, self._steady_s(), "watching"

    def passed(self, controller: Controller) -> None:
        """A pass went well."""
        self._led_at_s, self._trouble, self.doing = self._steady_s(), "", "watching"
        self.last_success.set(self._clock())
        self.alarm.set(float(controller.progress.alarm is not None))
        plan = controller.in_force()
        if plan not in self._planned:
            self._planned = {plan: _gpus(controller.fleet.desired(plan, {}))}
            _set(self.plan_in_force, {(plan.parent.name,): 1.0})
        pools = {*self._planned[plan], *self._there}
        _set(self.plan_gpus, {(pool,): self._planned[plan].get(pool, 0) for pool in pools})
        _set(self.cluster_gpus, {(pool,): self._there.get(pool, 0) for pool in pools})
        if controller.scaler is not None:
            self._note_scale(controller.scaler)
        if self._speeds is not None:
            served = self._speeds.served().items()
            _set(self.speed, {(r.stage, name): r.speed.factor for name, r in served if r.speed.sure})
            _set(self.drift, dict.fromkeys(((about,) for about in self._speeds.drifting), 1.0))

    def _note_scale(self, scaler: Scaler) -> None:
        self.scale_rate.set(scaler.rate_rps or 0.0)
        self.scale_foretold.set(scaler.foretold.rps if scaler.foretold else 0.0)
        self.scale_short.set(float(scaler.short))
        wanted: dict[tuple[str, ...], float] = {}
        for kind, count in scaler.wanted.items():
            wanted[(planned_stage(kind.stage),)] = wanted.get((planned_stage(kind.stage),), 0.0) + count
        _set(self.scale_wanted, wanted)

    def failed(self, kind: str, error: Exception) -> None:
        """A pass failed."""
        self.errors.labels(kind).inc()
        self._trouble, self.doing = str(error), "watching"

    def tell(self, entry: Entry) -> None:
        """Counts what the history is told."""
        match entry.kind:
            case "alarm":
                self.alarms.labels(str(entry.facts.get("watched", "other"))).inc()
            case "decision":
                self.decisions.labels(str(entry.facts.get("action", "keep"))).inc()
                self.last_decision.set(entry.at_s)
            case "scaled" if "counts" in entry.facts:
                self.scalings.inc()
            case "begun" | "adopted":
                self.doing, self._began_s = "moving", self._steady_s()
            case "holding":
                self.doing = "holding"
            case "held":
                self.holds.labels("held").inc()
            case "moved" | "rolled-back" | "failed" if self._began_s is not None:
                self.moves.labels(entry.kind).inc()
                self.move_seconds.observe(self._steady_s() - self._began_s)
                self.doing, self._began_s = "watching", None
            case "failed":
                self.holds.labels("failed").inc()
                self._trouble, self.doing = entry.what, "watching"

    def replanner(self, replan: Replanner) -> Replanner:
        """`replan`, timed, with what it foresees."""

        async def timed(request: Request, limit_s: float) -> Replanned:
            self.doing = "planning"
            self.forecast_rate.set(request.rate_rps)
            began_s = time.monotonic()
            try:
                found = await replan(request, limit_s)
            except PlanningFailed:
                self.plan_failures.inc()
                raise
            finally:
                self.plan_seconds.observe(time.monotonic() - began_s)
                self.doing = "watching"
            self._foresee({"today": found.today.forecast, "candidate": found.candidate.forecast})
            return found

        return timed

    def watched(self, fleet: Fleet) -> Fleet:
        """`fleet`, whose GPUs are noted whenever it is observed."""
        return _Watched(fleet, self._note_gpus)

    def _note_gpus(self, observed: Observed) -> None:
        self._there = dict(observed.gpus)

    def _foresee(self, forecasts: Mapping[str, Forecast]) -> None:
        _set(self.forecast_loss, {(plan, o.what, o.unit): o.loss for plan, o in forecasts.items()})
        _set(self.forecast_holds, {(plan,): float(o.keeps_bounds) for plan, o in forecasts.items()})

    def _gauge(self, name: str, what: str, *labels: str) -> Gauge:
        return Gauge(f"cascadia_controller_{name}", what, labels, registry=self.registry)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"cascadia_controller_{name}", what, labels, registry=self.registry)

    def _histogram(self, name: str, what: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"cascadia_controller_{name}", what, buckets=buckets, registry=self.registry)


class _Watched:
    def __init__(self, fleet: Fleet, note: Callable[[Observed], None]) -> None:
        self.backend: Backend = _Seen(fleet.backend, note)
        self._fleet = fleet

    def desired(self, plan: Path, need_rps: dict[str, float]) -> Desired:
        return self._fleet.desired(plan, need_rps)


class _Seen:
    def __init__(self, backend: Backend, note: Callable[[Observed], None]) -> None:
        self._backend = backend
        self._note = note

    async def observe(self) -> Observed:
        observed = await self._backend.observe()
        self._note(observed)
        return observed

    async def take(self, step: Step) -> None:
        await self._backend.take(step)


def _gpus(desired: Desired) -> dict[str, int]:
    return {pool: desired.gpus(pool) for pool in sorted({kind.pool for kind in desired.counts})}


def _set(gauge: Gauge, values: Mapping[tuple[str, ...], float]) -> None:
    """These and no others."""
    gauge.clear()
    for labels, value in values.items():
        gauge.labels(*labels).set(value)

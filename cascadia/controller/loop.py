"""The control loop: watch, detect, plan anew, decide, move. docs/design/control-loop.md draws its states.

It keeps nothing that it cannot find again: the history, the plan in force and the move under way are files, what runs
is asked of the backend, and what was usual is learnt again from the workload log.
"""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from cascadia.controller.backend import Backend, Moved, StepFailed, move_or_return
from cascadia.controller.decide import Caution, Decision, Effort, Situation, decide
from cascadia.controller.demand import rate_to_plan_rps, trace_to_plan
from cascadia.controller.detect import Alarm, Detection, Detector
from cascadia.controller.effort import effort_of, measured_startups
from cascadia.controller.fleet import Desired, Observed
from cascadia.controller.history import Entry, History, Kind, changed_at_s, moved_at_s
from cascadia.controller.promise import LOOKED_AT_S, broken
from cascadia.controller.reconcile import Blocked, Rollout, rollout
from cascadia.controller.replan import PlanningFailed, Replanned, Request
from cascadia.controller.steps import AwaitReady, Start, Step
from cascadia.controller.windows import RATE, Samples, Window, windows
from cascadia.planner.plan_file import read_plan
from cascadia.planner.text_file import write_whole
from cascadia_traces.writing import write_trace

IN_FORCE, UNDER_WAY = "in-force.json", "move.json"


@dataclass(frozen=True, slots=True)
class Settings:
    """`folder`: of the fleet. `lag_s`: how late an answered request may enter the workload log; `arrivals_lag_s`: that
    it came. `least_requests`: since a change, before it is planned for; `most_requests` of the latest are. `startup_s`:
    of a model that never started here.
    """

    folder: Path
    spec: Path
    detection: Detection = field(default_factory=Detection)
    caution: Caution = field(default_factory=Caution)
    lag_s: float = 60.0
    arrivals_lag_s: float = 35.0
    least_requests: int = 200
    most_requests: int = 20_000
    plan_limit_s: float = 300.0
    startup_s: float = 120.0
    at_once: int = 1
    dry_run: bool = False
    seed: int = 0


class Fleet(Protocol):
    """The backend, and how a plan becomes what it is to run. Raises `BadInput` for a plan that it cannot."""

    @property
    def backend(self) -> Backend: ...

    def desired(self, plan: Path, need_rps: dict[str, float]) -> Desired: ...


Replanner = Callable[[Request, float], Awaitable[Replanned]]


class Controller:
    """`log` gives the requests known by now; `clock` is Unix time. `fresh_table` writes a quality table of the traffic
    since a time and returns its path, or None where there is too little."""

    def __init__(
        self,
        settings: Settings,
        fleet: Fleet,
        log: Callable[[], Samples],
        replanner: Replanner,
        *,
        clock: Callable[[], float] = time.time,
        fresh_table: Callable[[float, Path], Path | None] = lambda _since, _out: None,
        tell: Callable[[Entry], None] = lambda _: None,
    ) -> None:
        self.settings = settings
        self.fleet = fleet
        self.history = History(settings.folder)
        self._log = log
        self._replan = replanner
        self._clock = clock
        self._fresh_table = fresh_table
        self._tell = tell
        self._detector = Detector(settings.detection, settings.seed)
        self._fed_until_s: dict[bool, float] = {}
        self._not_before_s = 0.0
        self._settled_s = 0.0
        self._again_s = 0.0
        self.pending: Alarm | None = None
        """A change that too few requests have been seen of since."""

    async def adopt(self) -> None:
        """Ends the move that a controller before this one was killed in."""
        path = self.settings.folder / UNDER_WAY
        if not path.exists():
            return
        document = json.loads(path.read_text())
        self._note("adopted", f"going on with the move to {Path(document['to']).parent.name}", {})
        await self._carry_out(
            Path(document["to"]), Path(document["from"]), document["need_rps"], document["need_now_rps"]
        )

    async def tick(self) -> Decision | None:
        """What a window's end asks for; a decision, where there was one to make."""
        samples = self._log()
        alarm = self._watch(samples)
        if alarm is not None:
            self._note("alarm", str(alarm), {"since_s": alarm.since_s, "watched": alarm.watched})
            self.pending, self._again_s = alarm, 0.0
        if self.pending is None:
            return await self._after_a_loss(samples) or await self._after_a_broken_promise(samples)
        since = self._known(samples, self.pending.since_s)
        if len(since) < self.settings.least_requests or self._clock() < self._again_s:
            return None
        alarm, self.pending = self.pending, None
        decision = await self.reconsider(since, alarm.since_s)
        self._again_s = decision.again_s
        if self._again_s:
            self.pending = alarm
        return decision

    async def _after_a_loss(self, samples: Samples) -> Decision | None:
        """GPUs that have gone, e.g. with a spot node, are traffic as usual: plan for what is left, now and then."""
        there = (await self.fleet.backend.observe()).gpus
        wanted = self.fleet.desired(self.in_force(), {})
        lost = [pool for pool in {k.pool for k in wanted.counts} if wanted.gpus(pool) > there.get(pool, 0)]
        now_s = self._clock()
        recent = samples.between(now_s - self.settings.caution.horizon_s, now_s)
        if not lost or len(recent) < self.settings.least_requests or now_s < self._not_before_s:
            return None
        self._not_before_s = now_s + self.settings.caution.cooldown_s
        pool = lost[0]
        what = f"GPUs are lost: {there.get(pool, 0)} of {pool} are left, the plan takes {wanted.gpus(pool)}"
        self._note("alarm", what, {"watched": "gpus"})
        return await self.reconsider(recent, float(recent.arrival_s[0]))

    async def _after_a_broken_promise(self, samples: Samples) -> Decision | None:
        """A plan that does not hold though traffic seems the same was made on too little of it, or on a wrong model."""
        plan = self.in_force()
        objective = read_plan(plan).objective if plan.exists() else None
        if objective is None or objective.latency_max_s is None:
            return None
        until_s = self._clock() - self.settings.lag_s - objective.latency_max_s
        from_s = until_s - LOOKED_AT_S
        recent = samples.between(from_s, until_s)
        if from_s < self._settled_s or len(recent) < self.settings.least_requests:
            return None
        # What began a moment ago is a change of traffic, which is about to be noticed as that.
        begun = samples.between(from_s, from_s + LOOKED_AT_S / 2)
        if not (why := broken(recent, objective)) or not broken(begun, objective):
            return None
        self._note("alarm", f"the plan does not hold: {why}", {"watched": "promise"})
        return await self.reconsider(self._known(samples, from_s), from_s)

    async def reconsider(self, samples: Samples, since_s: float) -> Decision:
        """Plans for `samples` and moves there where that pays. Its decision is in the history."""
        out = self.settings.folder / "plans" / f"{self._clock():.0f}"
        there = await self.fleet.backend.observe()
        try:
            request = self._request(samples, since_s, there.gpus, out)
            replanned = await self._replan(request, self.settings.plan_limit_s)
        except PlanningFailed as error:
            self._settled_s = self._clock()
            return self._decided(Decision("keep", f"no new plan: {error}"), None)
        observed = await self.fleet.backend.observe()
        desired = self.fleet.desired(replanned.plan, dict(replanned.candidate.need_rps))
        decision = self._decision(observed, desired, replanned)
        self._decided(decision, replanned.plan)
        if decision.action == "move" and not self.settings.dry_run:
            needs = dict(replanned.candidate.need_rps), dict(replanned.today.need_rps)
            await self._carry_out(replanned.plan, self.in_force(), *needs)
        self._settled_s = self._clock()
        return decision

    def in_force(self) -> Path:
        """The last plan that was moved to whole."""
        document = json.loads((self.settings.folder / IN_FORCE).read_text())
        return Path(document["plan"])

    def _watch(self, samples: Samples) -> Alarm | None:
        """Feeds the windows that are complete by now; the last alarm among them."""
        window_s = self.settings.detection.window_s
        if not len(samples):
            return None
        first_s = float(samples.arrival_s[0] // window_s * window_s)
        found = None
        # That requests came is known sooner than what became of them.
        for of_arrivals in (True, False):
            from_s = self._fed_until_s.setdefault(of_arrivals, first_s)
            for window in windows(samples, from_s, self._complete_s(samples, of_arrivals), window_s):
                values = {what: v for what, v in window.values.items() if (what == RATE) is of_arrivals}
                found = self._detector.feed(Window(window.start_s, values)) or found
                self._fed_until_s[of_arrivals] = window.start_s + window_s
        return found

    def _complete_s(self, samples: Samples, of_arrivals: bool) -> float:
        """Before this, all requests are in the log."""
        early = of_arrivals and samples.came_s is not None
        return self._clock() - (self.settings.arrivals_lag_s if early else self.settings.lag_s)

    def _known(self, samples: Samples, since_s: float) -> Samples:
        """Since then, as far as all is known; who came, as far as that is."""
        came_s = samples.between(since_s, self._complete_s(samples, True)).came_s
        return replace(samples.between(since_s, self._complete_s(samples, False)), came_s=came_s)

    def _request(self, samples: Samples, since_s: float, gpus: Mapping[str, int], out: Path) -> Request:
        out.mkdir(parents=True, exist_ok=True)
        rate_rps = rate_to_plan_rps(samples)
        write_trace(trace_to_plan(samples, self.settings.most_requests, rate_rps), out / "trace.parquet")
        return Request(
            spec=self.settings.spec,
            trace=out / "trace.parquet",
            rate_rps=rate_rps,
            today=self.in_force(),
            gpus=gpus,
            out=out,
            table=self._fresh_table(since_s, out),
            seed=self.settings.seed,
        )

    def _decision(self, observed: Observed, desired: Desired, replanned: Replanned) -> Decision:
        observed = Observed(
            observed.replicas, observed.gpus, observed.routing, dict(replanned.today.need_rps)
        )
        found, effort, blocked = self._way(observed, desired)
        entries = self.history.entries()
        situation = Situation(
            now_s=self._clock(),
            today=replanned.today.outlook,
            candidate=replanned.candidate.outlook,
            effort=effort,
            gpus=observed.gpus,
            moved_at_s=moved_at_s(entries),
            changed_at_s=changed_at_s(entries),
            blocked=blocked,
            same=found is not None and not found.steps,
        )
        return decide(situation, self.settings.caution)

    def _way(self, observed: Observed, desired: Desired) -> tuple[Rollout | None, Effort | None, str]:
        try:
            found = rollout(observed, desired, at_once=self.settings.at_once)
        except Blocked as error:
            return None, None, str(error)
        startups = measured_startups(self.history.entries(), self.settings.startup_s)
        return found, effort_of(found, startups), ""

    async def _carry_out(
        self, to: Path, back: Path, need_rps: dict[str, float], need_now_rps: dict[str, float]
    ) -> None:
        """`to`, or `back` where a step fails; the file that says so is there from before the first step to after the
        last, so that whoever comes next ends what was begun."""
        under_way = self.settings.folder / UNDER_WAY
        document = {"to": str(to), "from": str(back), "need_rps": need_rps, "need_now_rps": need_now_rps}
        write_whole(under_way, json.dumps(document))
        desired, last_good = self.fleet.desired(to, need_rps), self.fleet.desired(back, need_now_rps)
        self._note("begun", f"to {to.parent.name}", {"to": str(to), "from": str(back)})
        backend = Timed(self.fleet.backend, self._note, self._clock)
        try:
            await move_or_return(
                backend, desired, last_good, need_rps=need_now_rps, at_once=self.settings.at_once
            )
        except Moved as error:
            self._note("rolled-back", str(error), {})
        except (StepFailed, Blocked) as error:
            self._note("failed", f"neither forward nor back: {error}", {})
        else:
            write_in_force(self.settings.folder, to)
            self._note("moved", f"{to.parent.name} is in force", {"plan": str(to)})
        under_way.unlink()

    def _decided(self, decision: Decision, plan: Path | None) -> Decision:
        dry = " (dry run)" if self.settings.dry_run and decision.action == "move" else ""
        facts: dict[str, Any] = {
            "action": decision.action,
            "gain": decision.gain,
            "benefit_s": decision.benefit_s,
            "cost_s": decision.cost_s,
            "plan": None if plan is None else str(plan),
        }
        self._note("decision", f"{decision}{dry}", facts)
        return decision

    def _note(self, kind: Kind, what: str, facts: dict[str, Any]) -> None:
        entry = Entry(self._clock(), kind, what, facts)
        self.history.add(entry)
        self._tell(entry)


class Timed:
    """A backend whose steps are noted, with what each start took."""

    def __init__(
        self, backend: Backend, note: Callable[[Kind, str, dict[str, Any]], None], clock: Callable[[], float]
    ) -> None:
        self._backend = backend
        self._note = note
        self._clock = clock
        self._begun: dict[str, tuple[Start, float]] = {}

    async def observe(self) -> Observed:
        return await self._backend.observe()

    async def take(self, step: Step) -> None:
        began_s = self._clock()
        await self._backend.take(step)
        facts: dict[str, Any] = {"took_s": round(self._clock() - began_s, 3)}
        if isinstance(step, Start):
            self._begun[step.name] = step, began_s
        elif isinstance(step, AwaitReady) and step.name in self._begun:
            start, at_s = self._begun.pop(step.name)
            facts |= {
                "startup_s": round(self._clock() - at_s, 3),
                "spec": start.kind.spec,
                "stage": start.kind.stage,
            }
        self._note("step", str(step), facts)


def write_in_force(folder: Path, plan: Path) -> None:
    write_whole(folder / IN_FORCE, json.dumps({"plan": str(plan.resolve())}))

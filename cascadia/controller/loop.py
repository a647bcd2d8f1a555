"""The control loop: watch, detect, plan anew, decide, move. docs/design/control-loop.md draws its states.

It keeps nothing that it cannot find again: the history, the plan in force and the move under way are in its state, what
runs is asked of the backend, and what was usual is learnt again from the workload log.
"""

import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

from cascadia.controller.decide.decide import Caution, Decision, Effort, Situation, decide
from cascadia.controller.decide.move_cost import back_s, effort_of, measured_startups
from cascadia.controller.decide.replan import PlanningFailed, Replanned, Request
from cascadia.controller.decide.traffic_to_plan import rate_to_plan_rps, trace_to_plan
from cascadia.controller.detect.detect import Alarm, Detection, Detector
from cascadia.controller.detect.shadow_scores import SecondLooks
from cascadia.controller.detect.slo_watch import LOOKED_AT_S, broken
from cascadia.controller.detect.stale_scores import alike, given_up
from cascadia.controller.detect.windows import RATE, Samples, Window, windows
from cascadia.controller.memory.history import Entry, Kind, changed_at_s, moved_at_s, planned_gpus
from cascadia.controller.memory.state import FileState, State, UnderWay
from cascadia.controller.move.backend import StepFailed, move
from cascadia.controller.move.carry_out import Fleet, Journal, Timed, carry_out
from cascadia.controller.move.evacuate import evacuation
from cascadia.controller.move.reconcile import Blocked, Names, Rollout, rollout
from cascadia.controller.move.state import Desired, Observed
from cascadia.controller.move.steps import Drain, Route, Start, Stop
from cascadia.controller.speed.watch import Lengths, SpeedWatch
from cascadia.domain.objective import Objective
from cascadia.files.plan_file import read_plan
from cascadia_traces.formats.writing import write_trace

AGAIN_S = 60.0
"""After a plan in force could not be made so, before it is tried again."""
TABLE = "quality.parquet"
"""Beside a plan: the scores that it was made with, where they are not those of the spec."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`folder`: of the fleet. `lag_s`: how late an answered request may enter the workload log; `arrivals_lag_s`: that
    it came. `least_requests`: since a change, before it is planned for; `most_requests` of the latest are.
    `least_looks`: since a change, that replace the scores of before; for so many nothing is given up, but for
    `looks_within_s` at most. `headroom`: a share more requests than came are planned for where latency is bounded, as
    those who come while a change is followed are late. `startup_s`: of a model that never started here.
    """

    folder: Path
    spec: Path
    detection: Detection = field(default_factory=Detection)
    caution: Caution = field(default_factory=Caution)
    lag_s: float = 60.0
    arrivals_lag_s: float = 35.0
    least_requests: int = 200
    least_looks: int = 200
    looks_within_s: float = 3600.0
    headroom: float = 0.05
    most_requests: int = 20_000
    plan_limit_s: float = 300.0
    startup_s: float = 120.0
    at_once: int = 1
    dry_run: bool = False
    seed: int = 0


Replanner = Callable[[Request, float], Awaitable[Replanned]]


class Controller:
    """`log` gives the requests known by now; `clock` is Unix time."""

    def __init__(
        self,
        settings: Settings,
        fleet: Fleet,
        log: Callable[[], Samples],
        replanner: Replanner,
        *,
        clock: Callable[[], float] = time.time,
        looks: SecondLooks | None = None,
        speeds: SpeedWatch | None = None,
        tell: Callable[[Entry], None] = lambda _: None,
        state: State | None = None,
    ) -> None:
        self.settings = settings
        self.fleet = fleet
        self.state = state or FileState(settings.folder)
        self._log = log
        self._replan = replanner
        self._clock = clock
        self._looks = looks
        self._speeds = speeds
        self._journal = Journal(self.state, tell, clock)
        self._detector = Detector(settings.detection, settings.seed)
        self._fed_until_s: dict[bool, float] = {}
        self._not_before_s = self._hold_after_s = 0.0
        self._settled_s = self._again_s = 0.0
        self._unscored: Alarm | None = None
        self._waits = False
        self._objectives: dict[Path, Objective | None] = {}
        self.pending: Alarm | None = None
        """A change that too few requests have been seen of since."""

    async def adopt(self) -> None:
        """Ends the move that a controller before this one was killed in."""
        found = self.state.under_way()
        if found is not None:
            self.note("adopted", f"going on with the move to {found.to.parent.name}", {})
            await self.carry_out(found)

    async def hold(self) -> bool:
        """Makes the plan in force so again: at its first start, and where replicas or routing are other than it says.
        What is on its way by itself is waited for by nobody. False where that was tried in vain."""
        desired = self.fleet.desired(self.in_force(), {})
        observed = await self.fleet.backend.observe()
        observed = replace(observed, need_rps=desired.need_rps)
        if self._clock() < self._hold_after_s:
            return True
        backend = Timed(self.fleet.backend, self._journal)
        first = observed.routing is None
        at_once = sum(desired.counts.values()) if first else self.settings.at_once
        try:
            if _lost(desired, observed.gpus):
                await self._save_the_last(backend, observed)
                return True
            steps = rollout(observed, desired).steps
            if any(isinstance(step, Start | Drain | Stop | Route) for step in steps):
                told = "for the first time" if first else "what runs differs from it"
                self.note("holding", f"{self.in_force().parent.name}: {told}", {})
                await move(backend, desired, need_rps=desired.need_rps, at_once=at_once)
                self.note("held", f"{self.in_force().parent.name} is in force", {})
        except (StepFailed, Blocked) as error:
            self._hold_after_s = self._clock() + AGAIN_S
            self.note("failed", f"{self.in_force().parent.name} cannot be made so: {error}", {})
            return False
        return True

    async def _save_the_last(self, backend: Timed, observed: Observed) -> None:
        """Starts elsewhere, if there is room, what has to leave a machine and is the last of its stage."""
        names = Names({replica.name for replica in observed.replicas})
        steps = evacuation(observed, names, last_only=True)
        if steps:
            stages = ", ".join(dict.fromkeys(s.kind.stage for s in steps if isinstance(s, Start)))
            self.note("holding", f"the last of {stages} leaves a machine that takes no pods", {})
        for step in steps:
            await backend.take(step)

    async def tick(self) -> Decision | None:
        """Does what a window's end asks for; returns a decision, where there was one to make."""
        samples = self._log()
        await self._look_at_speeds(samples)
        alarm = self._watch(samples)
        if alarm is not None:
            self.note("alarm", str(alarm), {"since_s": alarm.since_s, "watched": alarm.watched})
            self.pending, self._again_s, self._unscored = alarm, 0.0, None
            if self._looks is not None and not self.settings.dry_run:
                self._looks.ask()
        self._look_for_fresh_scores(samples)
        if self.pending is None or self._clock() < self._again_s:
            return await self._after_other_gpus(samples) or await self._after_a_broken_promise(samples)
        since = self._known(samples, self._changed_by_s(self.pending))
        if len(since) < self.settings.least_requests:
            return None
        alarm, self.pending = self.pending, None
        stale = not self._scores_tell(samples, alarm)
        self._unscored = None if self._fresh(self._changed_by_s(alarm)) else alarm
        until_s = alarm.since_s + self.settings.looks_within_s if stale else 0.0
        decision = await self.reconsider(since, self._changed_by_s(alarm), until_s)
        self._again_s = decision.again_s
        self._waits = bool(until_s) and decision.again_s == until_s
        if self._again_s:
            self.pending = alarm
        return decision

    async def _look_at_speeds(self, samples: Samples) -> None:
        """Looks at replicas' speeds: who drifts is said; what was learnt is for the next plan."""
        if self._speeds is None:
            return
        recent = samples.between(self._clock() - LOOKED_AT_S, self._clock())
        lengths = Lengths()
        if len(recent):
            prompt = float(recent.input_tokens.mean())
            lengths = Lengths(prompt, prompt + float(recent.output_tokens.mean()) / 2)
        for drift in await self._speeds.look(self.in_force(), lengths):
            self.note("speed", drift.what, dict(drift.facts))

    def _look_for_fresh_scores(self, samples: Samples) -> None:
        """A change that was planned for with the scores of before is planned for again when there are newer ones, or
        when what waited for them need not."""
        alarm = self._unscored
        if alarm is None:
            return
        if self._fresh(self._changed_by_s(alarm)):
            self._unscored, self.pending, self._again_s = None, alarm, 0.0
            self.note("alarm", "there are scores since the change", {"watched": "scores"})
        elif self._clock() - alarm.at_s > self.settings.looks_within_s:
            self._unscored = None
        elif self._waits and self._scores_tell(samples, alarm):
            self._waits, self._again_s = False, 0.0

    def _fresh(self, since_s: float) -> bool:
        return self._looks is not None and self._looks.count(since_s) >= self.settings.least_looks

    def _scores_tell(self, samples: Samples, alarm: Alarm) -> bool:
        """Tells whether there are scores of the new traffic, or those of before do. A router without shadow
        evaluations is not waited for.
        """
        if self._looks is None or not self._looks.count(-inf) or self._fresh(self._changed_by_s(alarm)):
            return True
        before = samples.between(alarm.since_s - self.settings.looks_within_s, alarm.since_s)
        return alike(before, self._known(samples, self._changed_by_s(alarm)))

    def _changed_by_s(self, alarm: Alarm) -> float:
        """The first window that seems changed may hold much of before."""
        return alarm.since_s + self.settings.detection.window_s

    async def _after_other_gpus(self, samples: Samples) -> Decision | None:
        """GPUs that have gone, e.g. with a spot node, are traffic as usual: plan for what is left, now and then. So are
        those that come back, once: until it is decided with them."""
        there = (await self.fleet.backend.observe()).gpus
        now_s = self._clock()
        recent = samples.between(now_s - self.settings.caution.horizon_s, now_s)
        if now_s < self._not_before_s or len(recent) < self.settings.least_requests:
            return None
        wanted = self.fleet.desired(self.in_force(), {})
        decided = planned_gpus(self.state.entries())
        if lost := _lost(wanted, there):
            left = f"{there.get(lost[0], 0)} of {lost[0]} are left, the plan takes {wanted.gpus(lost[0])}"
            what = f"GPUs are lost: {left}"
        elif more := sorted(pool for pool, gpus in decided.items() if there.get(pool, 0) > gpus):
            what = f"GPUs are back: {there[more[0]]} of {more[0]}, it was planned for {decided[more[0]]}"
        else:
            return None
        self._not_before_s = now_s + self.settings.caution.cooldown_s
        self.note("alarm", what, {"watched": "gpus"})
        return await self.reconsider(recent, float(recent.arrival_s[0]))

    async def _after_a_broken_promise(self, samples: Samples) -> Decision | None:
        """A plan that does not hold though traffic seems the same was made on too little of it, or on a wrong model."""
        objective = self._objective()
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
        self.note("alarm", f"the plan does not hold: {why}", {"watched": "promise"})
        return await self.reconsider(self._known(samples, from_s), from_s)

    async def reconsider(self, samples: Samples, since_s: float, looks_until_s: float = 0.0) -> Decision:
        """Plans for `samples` and moves there where that pays. Its decision is in the history. Before `looks_until_s`
        nothing is given up."""
        asked_s = self._clock()
        out = self.settings.folder / "plans" / f"{asked_s:.0f}"
        there = await self.fleet.backend.observe()
        try:
            request = self._request(samples, since_s, there.gpus, out)
            replanned = await self._replan(request, self.settings.plan_limit_s)
        except PlanningFailed as error:
            self._settled_s = self._clock()
            return self._decided(Decision("keep", f"no new plan: {error}"), None, asked_s, {})
        observed = await self.fleet.backend.observe()
        desired = self.fleet.desired(replanned.plan, dict(replanned.candidate.need_rps))
        decision = self._decision(observed, desired, replanned, looks_until_s)
        self._decided(decision, replanned.plan, asked_s, there.gpus)
        if decision.action == "move" and not self.settings.dry_run:
            needs = dict(replanned.candidate.need_rps), dict(replanned.today.need_rps)
            await self.carry_out(UnderWay(replanned.plan, self.in_force(), *needs))
        self._settled_s = self._clock()
        return decision

    def _objective(self) -> Objective | None:
        """Objective of the plan in force; None where its file has gone."""
        plan = self.in_force()
        if plan not in self._objectives:
            self._objectives = {plan: read_plan(plan).objective if plan.exists() else None}
        return self._objectives[plan]

    def in_force(self) -> Path:
        """The last plan that was moved to whole."""
        return self.state.in_force()

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
        """Instant before which all requests are in the log."""
        early = of_arrivals and samples.came_s is not None
        return self._clock() - (self.settings.arrivals_lag_s if early else self.settings.lag_s)

    def _known(self, samples: Samples, since_s: float) -> Samples:
        """Samples since then, as far as all is known; who came, as far as that is."""
        came_s = samples.between(since_s, self._complete_s(samples, True)).came_s
        return replace(samples.between(since_s, self._complete_s(samples, False)), came_s=came_s)

    def _request(self, samples: Samples, since_s: float, gpus: Mapping[str, int], out: Path) -> Request:
        out.mkdir(parents=True, exist_ok=True)
        rate_rps = rate_to_plan_rps(samples)
        learned = {} if self._speeds is None else self._speeds.learned()
        if self._speeds is not None and (told := self._speeds.told()):
            what = f"planning with times as served, over those of the plan in force: {told}"
            self.note("speed", what, {"learned": learned})
        write_trace(trace_to_plan(samples, self.settings.most_requests, rate_rps), out / "trace.parquet")
        return Request(
            spec=self.settings.spec,
            trace=out / "trace.parquet",
            rate_rps=rate_rps,
            today=self.in_force(),
            gpus=gpus,
            out=out,
            table=self._table(since_s, out / TABLE),
            seed=self.settings.seed,
            headroom=self.settings.headroom,
            learned=learned,
        )

    def _table(self, since_s: float, path: Path) -> Path | None:
        """Scores since then, or those of the plan in force; None for the spec's."""
        if self._looks is not None and self._fresh(since_s):
            self._looks.write(since_s, path)
        elif (before := self.in_force().parent / TABLE).exists():
            shutil.copyfile(before, path)
        else:
            return None
        return path

    def _decision(
        self, observed: Observed, desired: Desired, replanned: Replanned, looks_until_s: float
    ) -> Decision:
        observed = replace(observed, need_rps=dict(replanned.today.need_rps))
        entries = self.state.entries()
        found, effort, blocked = self._way(observed, desired)
        objective = self._objective()
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
            gives_up=given_up(observed, desired),
            looks_until_s=looks_until_s,
            late=1.0 if objective is None or objective.latency_max_s is None else 1.0 - objective.quantile,
        )
        return decide(situation, self.settings.caution)

    def _way(self, observed: Observed, desired: Desired) -> tuple[Rollout | None, Effort | None, str]:
        try:
            found = rollout(observed, desired, at_once=self.settings.at_once)
        except Blocked as error:
            return None, None, str(error)
        startup_s = measured_startups(self.state.entries(), self.settings.startup_s)
        effort = effort_of(found, startup_s)
        return found, replace(effort, back_s=back_s(observed, desired, startup_s, self.settings.at_once)), ""

    async def carry_out(self, begun: UnderWay) -> None:
        await carry_out(begun, self.fleet, self._journal, at_once=self.settings.at_once)

    def _decided(
        self, decision: Decision, plan: Path | None, asked_s: float, gpus: Mapping[str, int]
    ) -> Decision:
        dry = " (dry run)" if self.settings.dry_run and decision.action == "move" else ""
        facts: dict[str, Any] = {
            "action": decision.action,
            "gain": decision.gain,
            "benefit_s": decision.benefit_s,
            "cost_s": decision.cost_s,
            "plan": None if plan is None else str(plan),
            "planning_s": round(self._clock() - asked_s, 3),
        }
        if gpus and not decision.again_s:
            # What was put off is yet to be decided.
            facts["gpus"] = dict(gpus)
        self.note("decision", f"{decision}{dry}", facts)
        return decision

    def note(self, kind: Kind, what: str, facts: dict[str, Any]) -> None:
        self._journal.note(kind, what, facts)


def _lost(wanted: Desired, there: Mapping[str, int]) -> list[str]:
    """Pools that have fewer GPUs than the plan takes."""
    return [
        pool for pool in sorted({k.pool for k in wanted.counts}) if wanted.gpus(pool) > there.get(pool, 0)
    ]

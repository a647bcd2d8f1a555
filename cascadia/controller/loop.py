"""The control loop: watch, detect, plan anew, decide, move. `decide/phases.py` has its phases as a state machine.

It keeps nothing that it cannot find again: the history, the plan in force and the move under way are in its state, what
runs is asked of the backend, and what was usual is learnt again from the workload log.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from cascadia.controller.decide.decide import Decision
from cascadia.controller.decide.move_cost import measured_startups
from cascadia.controller.decide.phases import LOOKING, Event, Phase, Progress
from cascadia.controller.decide.planning import Planning, Replanner
from cascadia.controller.decide.prices import SpecPrices, moved, prices_of
from cascadia.controller.decide.replan import PlanningFailed
from cascadia.controller.decide.settings import Settings
from cascadia.controller.detect.detect import Alarm
from cascadia.controller.detect.gear_watch import GearWatch
from cascadia.controller.detect.independence import independence
from cascadia.controller.detect.quality_watch import shortfall
from cascadia.controller.detect.shadow_scores import ShadowEvaluations
from cascadia.controller.detect.slo_watch import LOOKED_AT_S, violation
from cascadia.controller.detect.stale_scores import alike
from cascadia.controller.detect.traffic_watch import TrafficWatch
from cascadia.controller.detect.windows import Samples
from cascadia.controller.memory.clock import Clock, in_words
from cascadia.controller.memory.history import Entry, Kind, changed_at_s, latest_s, planned_gpus
from cascadia.controller.memory.state import FileState, State, UnderWay
from cascadia.controller.move.carry_out import Fleet, Journal, Timed, carry_out, towards
from cascadia.controller.move.hold import Holder, lost
from cascadia.controller.move.state import Desired, Observed, reached
from cascadia.controller.move.state import Kind as ReplicaKind
from cascadia.controller.scale.load import LoadSource
from cascadia.controller.scale.scaler import Scaler
from cascadia.controller.scale.steps import as_there
from cascadia.controller.speed.watch import Lengths, SpeedWatch
from cascadia.domain.errors import BadInput
from cascadia.files.plan_file import read_plan

QUALITY_S = 3600.0
"""So often shadow evaluations are held to the plan's bar."""
HURRIED_S = 60.0
"""So long scores of a change are waited for where requests are late: a move to the wrong plan takes longer."""
SCORES_S = 600.0
"""So often they are counted."""
GEARS_S, DAY_S = 3600.0, 86_400.0
"""So often it is looked whether shadow evaluations are enough, and so often told what they say of gears."""


class Controller:
    """`log` gives the requests known by now, but for those before the Unix time that `forget` was told; `clock` is Unix
    time. `steady_s`: seconds that pass, whoever sets that; None: nobody does."""

    def __init__(
        self,
        settings: Settings,
        fleet: Fleet,
        log: Callable[[], Samples],
        replanner: Replanner,
        *,
        clock: Callable[[], float] = time.time,
        steady_s: Callable[[], float] | None = None,
        evaluations: ShadowEvaluations | None = None,
        speeds: SpeedWatch | None = None,
        tell: Callable[[Entry], None] = lambda _: None,
        state: State | None = None,
        load: LoadSource | None = None,
        forget: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.settings = settings
        self.fleet = fleet
        self.state = state or FileState(settings.folder)
        self._log = log
        self._forget = forget
        self._clock = clock
        self._steady_s = steady_s or clock
        self._set = Clock(clock, self._steady_s)
        self._evaluations = evaluations
        self._speeds = speeds
        self._journal = Journal(self.state, tell, clock, self._steady_s)
        self._planning = Planning(settings, self._journal, replanner, evaluations, speeds)
        self._holder = Holder(
            Timed(fleet.backend, self._journal),
            self._journal,
            settings.at_once,
            self._holding,
        )
        self.scaler = self._scaler(load) if load is not None and settings.scales else None
        self._sized: Fleet = self.scaler or fleet
        self._prices = SpecPrices(settings.spec)
        self._scored: tuple[Path, int] | None = None
        self._begin_to_watch()
        self._between = any(entry.kind == "failed" for entry in _last_move(self.state.entries()))

    def _begin_to_watch(self) -> None:
        """Whatever is remembered by the machine's clock begins here, and once more where that is set."""
        settings = self.settings
        self.progress = Progress()
        self._traffic = TrafficWatch(
            settings.detection,
            self._clock,
            lag_s=settings.lag_s,
            arrivals_lag_s=settings.arrivals_lag_s,
            seed=settings.seed,
            # How much comes is the inner loop's business where there is one that follows it.
            of_rate=lambda: self.scaler is None or not self.scaler.follows,
        )
        self._planned_s = 0.0
        self._gpus_asked_s = self._scaled_asked_s = self._gears_looked_s = self._swings_asked_s = -inf
        self._quality_looked_s = self._scores_looked_s = -inf
        self._swings = ""
        self._gears: tuple[Path, GearWatch | None] | None = None

    async def adopt(self) -> None:
        """Ends the move that a controller before this one was killed in: where its plan cannot be read any more, back
        in what was in force."""
        found = self.state.under_way()
        if found is None:
            return
        try:
            self.fleet.desired(found.to, found.need_rps)
        except BadInput as error:
            self.note("adopted", f"back to {found.back.parent.name}: the move cannot go on, {error}", {})
            found = replace(found, to=found.back, need_rps=found.need_now_rps)
        else:
            self.note("adopted", f"going on with the move to {found.to.parent.name}", {})
        await self.carry_out(found, Event.ADOPTED)

    async def hold(self) -> bool:
        """Makes the plan in force so again: at its first start, and where replicas or routing are other than it says.
        False where that was tried in vain."""
        plan = self.in_force()
        desired, observed = await self._in_force_and_there(plan)
        try:
            return await self._holder.hold(desired, observed, plan.parent.name)
        finally:
            if self.progress.phase is Phase.HOLDING:
                self._goes(Event.ENDED)

    async def _in_force_and_there(self, plan: Path) -> tuple[Desired, Observed]:
        desired, observed = self.fleet.desired(plan, {}), await self.fleet.backend.observe()
        if self.scaler is not None and observed.routing is not None:
            return as_there(desired, observed)
        return desired, observed

    async def _leave_no_move_half_done(self) -> None:
        """After a move that led neither forward nor back what is of no plan would stay, and take its GPUs."""
        if self._between and not self.settings.dry_run:
            await self.hold()
            desired, observed = await self._in_force_and_there(self.in_force())
            self._between = not reached(observed, desired)

    async def tick(self) -> Decision | None:
        """Does what a window's end asks for; returns a decision, where there was one to make."""
        await self._leave_no_move_half_done()
        self._look_at_the_clock()
        samples = self._log()
        await self._look_at_speeds(samples)
        self._look_for_changes(samples)
        self._look_for_scores(samples)
        self._look_at_gears()
        if self._waits() and self._clock() >= self.progress.until_s:
            self._goes(Event.PASSED)
        alarm = self.progress.alarm
        gathers = self.progress.phase is Phase.GATHERING
        if alarm is None or not gathers or self._awaits_scores(samples, alarm):
            return (
                # One a tick: each is decided on the fleet as it is, which the one before may have changed.
                await self._after_other_gpus(samples)
                or await self._after_other_prices(samples)
                or await self._after_a_broken_promise(samples)
                or await self._after_a_shortfall(samples)
                or await self._after_more_scores(samples)
                or await self._after_other_gears(samples)
                or await self._after_the_ceiling(samples)
                or await self._after_swings(samples)
            )
        since_s = alarm.changed_by_s
        since = self._traffic.known(samples, since_s)
        if len(since) < self.settings.least_requests:
            return None
        stale = not self._scores_tell(samples, alarm)
        until_s = alarm.since_s + self.settings.evaluations_within_s if stale else 0.0
        self._goes(Event.ENOUGH, unscored=None if self._planning.fresh(since_s) else alarm)
        return await self._plan(since, since_s, until_s)

    async def scale(self) -> None:
        """Looks once with the inner loop; does nothing while the fleet is moved, or where the loop is off."""
        moves = self.progress.phase in (Phase.MOVING, Phase.HOLDING)
        if self.scaler is not None and not moves and not self.settings.dry_run:
            await self.scaler.look(self.in_force())

    async def rest(self) -> None:
        """The inner loop lets go of what it waits for."""
        if self.scaler is not None:
            await self.scaler.rest()

    async def reconsider(
        self, samples: Samples, since_s: float, rate_rps: float | None = None, *, refines: bool = False
    ) -> Decision:
        """Plans for `samples`, at `rate_rps` or the usual rate, and moves there where that pays. Its decision is in the
        history. `refines`: today's plan was made for this traffic."""
        self._goes(Event.ASKED)
        return await self._plan(samples, since_s, rate_rps=rate_rps, refines=refines)

    async def carry_out(
        self, begun: UnderWay, why: Event = Event.GIVEN, begins: Callable[[], None] = lambda: None
    ) -> None:
        """A move to its end, whoever wanted it. `begins` is called just before the state says that it is under way, and
        nothing is saved between the two."""
        # The phase first: `scale` looks at it, and must begin nothing while the inner loop lets go.
        self._goes(why)
        await self.rest()
        begins()
        try:
            end = await carry_out(begun, self._sized, self._journal, at_once=self.settings.at_once)
            self._between = end.kind == "failed"
        finally:
            self._goes(Event.ENDED)

    def in_force(self) -> Path:
        """The last plan that was moved to whole."""
        return self.state.in_force()

    def note(self, kind: Kind, what: str, facts: dict[str, Any]) -> None:
        self._journal.note(kind, what, facts)

    def _goes(
        self, event: Event, *, alarm: Alarm | None = None, until_s: float = 0.0, unscored: Alarm | None = None
    ) -> None:
        self.progress = self.progress.after(event, alarm=alarm, until_s=until_s, unscored=unscored)

    def _waits(self) -> bool:
        return self.progress.phase in (Phase.COOLING, Phase.WANTING_SCORES)

    def _look_at_the_clock(self) -> None:
        """Where it was set, requests of before are of another time: with those of now they would be traffic that never
        came, or a gap in it, and waits would end at once or not for days."""
        by_s = self._set.set_by_s()
        if not by_s:
            return
        now_s = self._clock()
        self._forget(now_s)
        self._begin_to_watch()
        self._planned_s = now_s
        what = f"set {in_words(by_s)}: traffic of before is not looked at, and what is usual is learnt anew"
        self.note("clock", what, {"by_s": round(by_s, 3)})

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

    def _look_for_changes(self, samples: Samples) -> None:
        """A later change takes the place of one that is waited with."""
        looks = () if self.scaler is None else self.scaler.looks
        alarm = self._traffic.feed(samples, looks)
        # Windows of a load that swings are not equally sure, so small changes seem to be there that are not.
        if alarm is None or (self.scaler is not None and alarm.small):
            return
        if alarm.swings:
            self._swings = str(alarm)
            return
        self.note("alarm", str(alarm), {"since_s": alarm.since_s, "watched": alarm.watched})
        self._goes(Event.ALARM, alarm=alarm)
        if self._evaluations is not None and not self.settings.dry_run:
            self._evaluations.ask()

    def _look_for_scores(self, samples: Samples) -> None:
        """A change that was planned for with the scores of before is planned for again when there are newer ones, or
        when what waited for them need not."""
        alarm = self.progress.unscored
        if alarm is None or self._clock() - alarm.at_s > self.settings.evaluations_within_s:
            return
        if self._planning.fresh(alarm.changed_by_s):
            self._goes(Event.SCORES, alarm=alarm)
            self.note("alarm", "there are scores since the change", {"watched": "scores"})
        elif self.progress.phase is Phase.WANTING_SCORES and self._scores_tell(samples, alarm):
            self._goes(Event.ALIKE)

    def _look_at_gears(self) -> None:
        """Says once a day whether questions are as hard under load as without, as the bound on quality takes them."""
        now_s = self._clock()
        if self._evaluations is None or now_s < self._gears_looked_s + GEARS_S:
            return
        self._gears_looked_s = now_s
        entries = self.state.entries()
        if now_s < latest_s(entries, "gears", now_s) + DAY_S:
            return
        found = independence(*self._evaluations.by_gear(latest_s(entries, "moved", now_s)))
        if found is not None:
            self.note("gears", str(found), {"p": found.p, "looks": found.looks, "points": found.points})

    def _awaits_scores(self, samples: Samples, alarm: Alarm) -> bool:
        """Tells whether a change is not yet planned for: on few scores or those of before it would be again, and each
        is a move, of minutes. Meanwhile the inner loop sees to the load; where it cannot, few do."""
        if self.scaler is None or not self.scaler.follows:
            return False
        wait_s, times = self.settings.scores_wait_s, self.settings.more_evaluations
        if self.scaler.overloaded:
            wait_s, times = min(wait_s, HURRIED_S), 1
        # What was seen by `at_s` was known, and noticed, that much later.
        soon = self._clock() < alarm.at_s + self.settings.lag_s + wait_s
        return soon and not self._scores_tell(samples, alarm, times)

    def _scores_tell(self, samples: Samples, alarm: Alarm, times: int = 1) -> bool:
        """Tells whether there are scores of the new traffic, so many times as many as replace those of before, or those
        of before do. A router without shadow evaluations is not waited for.
        """
        since_s = alarm.changed_by_s
        if self._evaluations is None or not self._evaluations.count(-inf):
            return True
        if self._planning.fresh(since_s, times):
            return True
        before = samples.between(alarm.since_s - self.settings.evaluations_within_s, alarm.since_s)
        return alike(before, self._traffic.known(samples, since_s))

    async def _after_other_gpus(self, samples: Samples) -> Decision | None:
        """GPUs that have gone, e.g. with a spot node, are traffic as usual: plan for what is left, now and then. So are
        those that come back, once: until it is decided with them."""
        observed = await self.fleet.backend.observe()
        there, now_s = observed.gpus, self._clock()
        recent = samples.between(now_s - self.settings.move_policy.horizon_s, now_s)
        soon = now_s < self._gpus_asked_s + self.settings.move_policy.cooldown_s
        if soon or len(recent) < self.settings.least_requests:
            return None
        wanted = self.fleet.desired(self.in_force(), {})
        decided = planned_gpus(self.state.entries())
        if gone := lost(wanted, observed):
            left = f"{there.get(gone[0], 0)} of {gone[0]} are left, the plan takes {wanted.gpus(gone[0])}"
            what = f"GPUs are lost: {left}"
        elif more := sorted(pool for pool, gpus in decided.items() if there.get(pool, 0) > gpus):
            what = f"GPUs are back: {there[more[0]]} of {more[0]}, it was planned for {decided[more[0]]}"
        else:
            return None
        self._gpus_asked_s = now_s
        self.note("alarm", what, {"watched": "gpus"})
        return await self.reconsider(recent, float(recent.arrival_s[0]))

    async def _after_other_prices(self, samples: Samples) -> Decision | None:
        """Prices in the spec that are no longer those of the plan in force: once for each that somebody wrote."""
        now_s = self._clock()
        recent = samples.between(now_s - self.settings.move_policy.horizon_s, now_s)
        if len(recent) < self.settings.least_requests or (prices := self._prices.fresh()) is None:
            return None
        if not (what := moved(prices_of(read_plan(self.in_force())), prices)):
            return None
        self.note("alarm", f"prices changed: {what}", {"watched": "prices"})
        return await self.reconsider(recent, float(recent.arrival_s[0]))

    async def _after_a_broken_promise(self, samples: Samples) -> Decision | None:
        """A plan that does not hold though traffic seems the same was made on too little of it, or on a wrong model."""
        objective = self._planning.objective()
        if objective is None or not objective.bounds:
            return None
        late_s = objective.deadline.max_s if objective.deadline else 0.0
        # Who came later than that may be answered in time yet.
        until_s = self._clock() - self.settings.lag_s - late_s
        from_s = until_s - LOOKED_AT_S
        recent = samples.between(from_s, until_s)
        settled_s = max(self._planned_s, -inf if self.scaler is None else self.scaler.grown_s)
        if from_s < settled_s or len(recent) < self.settings.least_requests:
            return None
        # What began a moment ago is a change of traffic, which is about to be noticed as that.
        begun = samples.between(from_s, from_s + LOOKED_AT_S / 2)
        if not (why := violation(recent, objective)) or not violation(begun, objective):
            return None
        self.note("alarm", f"the plan does not hold: {why}", {"watched": "promise"})
        return await self.reconsider(self._traffic.known(samples, from_s), from_s)

    async def _after_a_shortfall(self, samples: Samples) -> Decision | None:
        """Answers that are surely worse than what was asked, by the shadow evaluations since the last plan: traffic may
        have drifted too slowly, or too little, for a change to be noticed."""
        now_s, objective = self._clock(), self._planning.objective()
        soon = now_s < self._quality_looked_s + QUALITY_S
        if self._evaluations is None or objective is None or soon:
            return None
        self._quality_looked_s = now_s
        since_s = max(self._planned_s, latest_s(self.state.entries(), "moved", now_s))
        recent = samples.between(now_s - self.settings.move_policy.horizon_s, now_s)
        if len(recent) < self.settings.least_requests or not self._planning.fresh(since_s):
            return None
        least = self.settings.least_evaluations
        why = shortfall(read_plan(self.in_force()), *self._evaluations.scores(since_s), least)
        if not why:
            return None
        self.note("alarm", f"the plan does not hold: {why}", {"watched": "quality"})
        return await self.reconsider(recent, since_s)

    async def _after_more_scores(self, samples: Samples) -> Decision | None:
        """A plan that was made on few shadow evaluations since a change is a cautious one, so a dear one: when they are
        several times as many, and again when they are several times those."""
        now_s, policy = self._clock(), self.settings.move_policy
        soon = now_s < self._scores_looked_s + SCORES_S
        if self._evaluations is None or self.progress.phase is not Phase.WATCHING or soon:
            return None
        self._scores_looked_s = now_s
        entries, plan = self.state.entries(), self.in_force()
        changed_s = max(changed_at_s(entries, now_s), default=-inf)
        begun_s = latest_s(entries, "begun", now_s)
        recent = samples.between(max(changed_s, now_s - policy.horizon_s), now_s)
        if now_s < begun_s + policy.cooldown_s or len(recent) < self.settings.least_requests:
            return None
        made_with, there = self._planning.evaluations(), self._evaluations.count(changed_s)
        if self._scored is not None and self._scored[0] == plan:
            made_with = self._scored[1]
        if not made_with or there < self.settings.more_evaluations * made_with:
            return None
        self._scored = plan, there
        what = f"{there:,} shadow evaluations tell of this traffic, of {made_with:,} the plan was made with"
        self.note("alarm", what, {"watched": "evaluations"})
        return await self.reconsider(recent, changed_s, refines=begun_s >= changed_s)

    async def _after_other_gears(self, samples: Samples) -> Decision | None:
        """Requests that stay in lighter gears than the plan foresaw want more than it gives, whatever their rate; where
        they stay in heavier ones, least cost has GPUs to give back."""
        objective, now_s, plan = self._planning.objective(), self._clock(), self.in_force()
        if objective is None:
            return None
        if self._gears is None or self._gears[0] != plan:
            self._gears = plan, GearWatch.of(read_plan(plan), self.settings.gear_slack, now_s)
        if (watch := self._gears[1]) is None:
            return None
        # Who came later than that may be answered yet.
        late_s = objective.deadline.max_s if objective.deadline else 0.0
        found = watch.feed(samples, now_s - self.settings.lag_s - late_s)
        recent = samples.between(now_s - self.settings.move_policy.horizon_s, now_s)
        if found is None or len(recent) < self.settings.least_requests:
            return None
        if found.load == "less" and objective.goal != "cost":
            return None
        self.note("alarm", str(found), {"watched": "gears", "seen": found.seen, "foreseen": found.foreseen})
        return await self.reconsider(recent, float(recent.arrival_s[0]))

    async def _after_the_ceiling(self, samples: Samples) -> Decision | None:
        """More replicas of today's shapes are wanted than there are GPUs for, or another rate than the plan's has come
        to stay: then other shapes may do better."""
        now_s = self._clock()
        soon = now_s < self._scaled_asked_s + self.settings.move_policy.cooldown_s
        if self.scaler is None or not self.scaler.follows or soon:
            return None
        rate_rps = self.scaler.arrivals.other_rps(self.scaler.planned_rps)
        if self.scaler.short:
            rate_rps = self.scaler.rate_rps
            what = "no GPUs are left for replicas that the load asks for"
        elif rate_rps is not None:
            what = f"{rate_rps:.3g} req/s have come to stay, of {self.scaler.planned_rps:.3g} planned for"
        else:
            return None
        recent = samples.between(now_s - self.settings.move_policy.horizon_s, now_s)
        if len(recent) < self.settings.least_requests:
            return None
        self._scaled_asked_s = now_s
        self.note("alarm", what, {"watched": "scale"})
        return await self.reconsider(recent, float(recent.arrival_s[0]), rate_rps)

    async def _after_swings(self, samples: Samples) -> Decision | None:
        """Plans for what swings with an hour of it, once in that time: a turn of it has passed by then."""
        why, self._swings = self._swings, ""
        now_s, horizon_s = self._clock(), self.settings.move_policy.horizon_s
        recent = samples.between(now_s - horizon_s, now_s)
        soon = now_s < self._swings_asked_s + horizon_s
        if not why or soon or len(recent) < self.settings.least_requests:
            return None
        self._swings_asked_s = now_s
        self.note("alarm", why, {"watched": "swings"})
        return await self.reconsider(recent, float(recent.arrival_s[0]))

    def _scaler(self, load: LoadSource) -> Scaler:
        def startups(entries: list[Entry]) -> Callable[[ReplicaKind], float]:
            return measured_startups(entries, self.settings.startup_s)

        return Scaler(self.fleet, self._journal, load, startups, self.settings.quiet_s, self._steady_s)

    async def _holding(self) -> None:
        self._goes(Event.DIFFERS)
        await self.rest()

    async def _plan(
        self,
        samples: Samples,
        since_s: float,
        evaluations_until_s: float = 0.0,
        rate_rps: float | None = None,
        refines: bool = False,
    ) -> Decision:
        """Plans for the traffic since `since_s`, at `rate_rps` or the usual rate. Before `evaluations_until_s` nothing
        is given up."""
        try:
            return await self._planned(samples, since_s, evaluations_until_s, rate_rps, refines)
        finally:
            # Also where planning failed: what is late until it can be asked again would only ask for the
            # same.
            self._planned_s = self._clock()
            if self.progress.phase not in LOOKING:
                self._goes(Event.BROKEN_OFF)

    async def _planned(
        self,
        samples: Samples,
        since_s: float,
        evaluations_until_s: float,
        rate_rps: float | None,
        refines: bool,
    ) -> Decision:
        asked_s = self._steady_s()
        observed = await self.fleet.backend.observe()
        there = observed.gpus
        basis = None if self.scaler is None else self.scaler.basis(self.in_force(), rate_rps)
        try:
            replanned = await self._planning.ask(samples, since_s, there, basis)
        except PlanningFailed as error:
            self._goes(Event.INFEASIBLE)
            return self._planning.note(Decision("keep", f"no new plan: {error}"), None, asked_s, {})
        self._goes(Event.PLANNED)
        observed = await self.fleet.backend.observe()
        # Needs were simulated at the usual rate; what moves has to carry that of the moment.
        share = 1.0 if basis is None else basis.now
        need_rps, need_now_rps = (
            {stage: share * rate for stage, rate in each.need_rps.items()}
            for each in (replanned.candidate, replanned.today)
        )
        begun = UnderWay(replanned.plan, self.in_force(), need_rps, need_now_rps)
        desired, _ = towards(begun, self._sized)
        decision = self._planning.decide(
            observed, desired, replanned, evaluations_until_s=evaluations_until_s, refines=refines
        )
        self._planning.note(decision, replanned.plan, asked_s, there)
        if decision.action == "move" and not self.settings.dry_run:
            await self.carry_out(begun, Event.MOVE)
        elif decision.again_s and self.progress.alarm is not None:
            for_scores = decision.again_s == evaluations_until_s
            self._goes(Event.WANTS_SCORES if for_scores else Event.COOL_DOWN, until_s=decision.again_s)
        else:
            self._goes(Event.KEEP)
        return decision


def _last_move(entries: list[Entry]) -> list[Entry]:
    """How the last move, or the last time that a plan was held, ended."""
    return [entry for entry in entries if entry.kind in ("moved", "rolled-back", "failed", "held")][-1:]

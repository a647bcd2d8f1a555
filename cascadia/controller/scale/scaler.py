"""The inner loop's hands: looks at the load, and adds and takes away replicas of the plan's own shapes.

A start or a drain returns at once; whoever waits for a replica to be ready or to finish does so beside the loop, and
what is under way is seen in what is observed, so that a controller that takes over goes on with it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import NamedTuple

from cascadia.controller.memory.clock import Clock
from cascadia.controller.memory.history import Entry
from cascadia.controller.move.backend import Backend, StepFailed
from cascadia.controller.move.carry_out import Fleet, Journal
from cascadia.controller.move.state import Desired, Kind, Observed, planned_stage
from cascadia.controller.move.steps import AwaitReady, Drain, Start, Step, Stop
from cascadia.controller.scale.as_scaled import as_scaled
from cascadia.controller.scale.load import LoadSource
from cascadia.controller.scale.profile import STRETCH_S, Foretold, Profile
from cascadia.controller.scale.rate import Arrivals
from cascadia.controller.scale.share import Share
from cascadia.controller.scale.size import (
    Heavier,
    Load,
    Queues,
    Quiet,
    clearing_rps,
    counts_for,
    fitting,
    within,
)
from cascadia.controller.scale.sizes import StageSize, in_time_s, peaks_of, sizes_of
from cascadia.controller.scale.steps import alive, steps_to
from cascadia.controller.scale.turned_away import TurnedAway
from cascadia.domain.plan import Plan
from cascadia.files.plan_file import read_plan

AGAIN_S = 300.0
"""After a replica of a kind did not start, before another is."""
WAIT_AGAIN_S = 60.0
"""After a replica was waited for in vain, e.g. since the router refuses its file, before it is again."""
SHORT_S = 60.0
"""That more is wanted than there are GPUs for, before it counts as the ceiling; and that more is in hand than can be
answered in time, before it counts as overload."""

TIMES_LATE = 2.0
"""Times the share that may be late, so much of the time more is in hand than can be answered in time before a plan's
own bursts no longer count as ones that it stands."""

LATELY_S = 120.0
"""What a burst asks for is wanted for so long: it has mostly passed before it is ready."""

RISE = 0.1
"""What days before foretell beyond the load of the moment, less than this share of it, is left to that: no noise of
theirs starts a replica."""
KEPT = 72
"""Stretches of the profile that are written down at a time: six hours."""

Startup = Callable[[Kind], float]


class Basis(NamedTuple):
    """Today's plan with the replicas that `rate_rps` asks for. `now`: the rate to come over that one."""

    today: Plan
    rate_rps: float
    now: float


class Scaler:
    """Inner loop of a fleet. As a fleet it sizes the plans that are moved to: a plan says what runs, and this how many.

    `startups`: by the entries of the history and a kind, how long a replica takes to be ready. `steady_s`: seconds
    that pass, whoever sets the clock; rates and waits go by them."""

    def __init__(
        self,
        fleet: Fleet,
        journal: Journal,
        source: LoadSource,
        startups: Callable[[list[Entry]], Startup],
        quiet_s: float,
        steady_s: Callable[[], float],
    ) -> None:
        self._steady_s = steady_s
        self._fleet = fleet
        self.backend = fleet.backend
        self._journal = journal
        self._source = source
        self._startups = startups
        self._quiet_s = quiet_s
        self._busy = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._begun_s: dict[str, float] = {}
        self._again_s: dict[str, float] = {}
        self._not_before_s: dict[Kind, float] = {}
        self._plan: Path | None = None
        self._startup_s: Startup = startups([])
        self._sizes: tuple[StageSize, ...] = ()
        self._in_time_s = 0.0
        self._peaks: Mapping[float, float] = {}
        self._late, self._may_be_late = Share(), 0.0
        self._quiet, self._lately = Quiet(quiet_s), Quiet(LATELY_S)
        self._queues, self._turned_away, self._heavier = Queues(), TurnedAway(), Heavier(quiet_s)
        self._told: Mapping[Kind, int] = {}
        self._short_since_s: float | None = None
        self._late_since_s: float | None = None
        self._there: Mapping[str, int] = {}
        self._silent = False
        self.grown_s = -inf
        """When a replica was last started, or ready: what is late until then is on its way to be mended."""
        self.planned_rps = 0.0
        self._follows = True
        self.arrivals = Arrivals()
        self._clock = Clock(journal.clock, steady_s)
        self.profile = Profile(_kept(journal.state.entries()))
        self._kept_to: int | None = None
        self.foretold: Foretold | None = None
        self._by_profile = False
        self.rate_rps: float | None = None

    def desired(self, plan: Path, need_rps: dict[str, float]) -> Desired:
        """A plan with as many replicas as the rate to come asks for, where there are GPUs for these; as planned, where
        no rate is known."""
        desired, found = self._fleet.desired(plan, need_rps), read_plan(plan)
        if self.rate_rps is None or not follows_rate(found):
            return desired
        sizes = sizes_of(found, desired)
        rate_rps = self._rate_rps(self._slowest_s(sizes), peaks_of(found)) or self.rate_rps
        counts = {kind: n for size in sizes for kind, n in counts_for(size, rate_rps).items()}
        sized = replace(desired, counts=counts)
        pools = {kind.pool for kind in counts}
        return sized if all(sized.gpus(p) <= self._there.get(p, 0) for p in pools) else desired

    def basis(self, plan: Path, rate_rps: float | None = None) -> Basis | None:
        """Makes what another plan is made for and compared with, at `rate_rps` or the usual rate, as far as there are
        GPUs. None where that rate is not known, or replicas do not follow it."""
        rate_rps, found = rate_rps or self.arrivals.usual_rps(), read_plan(plan)
        if rate_rps is None or self.rate_rps is None or not follows_rate(found):
            return None
        sizes = sizes_of(found, self._fleet.desired(plan, {}))
        wanted = {kind: n for size in sizes for kind, n in counts_for(size, rate_rps).items()}
        gpus = {pool.name: min(pool.gpus, self._there.get(pool.name, 0)) for pool in found.cluster.pools}
        counts, _ = fitting(sizes, wanted, {}, gpus)
        return Basis(as_scaled(found, counts), rate_rps, self.rate_rps / rate_rps)

    async def look(self, plan: Path) -> None:
        """Once. `plan`: the one in force."""
        async with self._busy:
            await self._look(plan)

    async def rest(self) -> None:
        """Lets go of what it waits for, so that a move may take it up."""
        async with self._busy:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._tasks.clear()
            # Whoever waits for them next has seen no beginning of it, and names are given again.
            self._begun_s.clear()

    @property
    def wanted(self) -> Mapping[Kind, int]:
        """Counts by kind, as of the last look."""
        return self._told

    @property
    def short(self) -> bool:
        """More has been wanted for a while than there are GPUs for."""
        return self._lasts(self._short_since_s)

    @property
    def overloaded(self) -> bool:
        """More has been in hand for a while than can be answered in time."""
        return self._lasts(self._late_since_s)

    def _lasts(self, since_s: float | None) -> bool:
        return since_s is not None and self._steady_s() - since_s >= SHORT_S

    @property
    def looks(self) -> list[tuple[float, float]]:
        """Looks of the last hours, oldest first: when by the clock of now, and how many requests had come by then."""
        unix_s = self._journal.clock() - self._steady_s()
        return [(at_s + unix_s, came) for at_s, came in self.arrivals.looks]

    @property
    def follows(self) -> bool:
        """Tells whether replicas follow the rate down as well as up; if not, another rate asks for another plan."""
        return self._follows

    async def _look(self, plan: Path) -> None:
        if plan != self._plan:
            self._adopt(plan)
        load = await self._source.load()
        self._tell_silence(load is None)
        if load is None:
            return
        now_s = self._steady_s()
        load = self._turned_away.as_waiting(now_s, load)
        self.arrivals.add(now_s, load.came)
        if self._clock.set_by_s():
            self.profile.leave_out()
            self.grown_s = -inf
        self._keep(self.profile.add(self._journal.clock(), load.came))
        observed = await self.backend.observe()
        self._there = observed.gpus
        if observed.routing is None:
            return  # nothing serves yet
        counts = self._counts(now_s, load, observed)
        if counts is None:
            return
        for step in steps_to(observed, counts):
            try:
                await self._take(step, observed)
            except StepFailed as error:
                self._not_done(step.kind if isinstance(step, Start) else None, error)

    def _adopt(self, plan: Path) -> None:
        found = read_plan(plan)
        self._sizes = sizes_of(found, self._fleet.desired(plan, {}))
        self._in_time_s, self._peaks, self._late = in_time_s(found), peaks_of(found), Share()
        self._may_be_late = TIMES_LATE * (1.0 - found.objective.quantile)
        self.planned_rps, self._follows = found.predicted.rate_rps, follows_rate(found)
        self._quiet, self._lately = Quiet(self._quiet_s), Quiet(min(LATELY_S, self._quiet_s))
        self._heavier = Heavier(self._quiet_s)
        self._plan, self._short_since_s, self._late_since_s = plan, None, None
        self._told = {}
        self._startup_s = self._startups(self._journal.state.entries())

    def _counts(self, now_s: float, load: Load, observed: Observed) -> dict[Kind, int] | None:
        slowest_s = self._slowest_s(self._sizes)
        came_rps = self.arrivals.lasting_rps() or self.arrivals.ahead_rps(slowest_s)
        if came_rps is None:
            return None
        late = sum(load.in_hand.values()) > self._in_time_s * came_rps
        self._late_since_s = (self._late_since_s or now_s) if late else None
        # A plan whose own bursts make too many late was not made with bursts like these.
        peaks = self._peaks if self._late.share(now_s, late) <= self._may_be_late else {}
        self.rate_rps = self._rate_rps(slowest_s, peaks) or came_rps
        lasting_rps = self.arrivals.lasting_rps(peaks) or self.rate_rps
        if self._by_profile:
            # What is foretold is no burst: it is kept as long as any load.
            lasting_rps = self.rate_rps
        grows = {planned_stage(r.kind.stage) for r in observed.replicas if r.state == "starting"}
        queues = self._queues.least(now_s, load, grows, slowest_s)
        if not late:
            # A stage that is fuller than planned is no queue yet while the whole is in time: gears see to it.
            queues = {}
        there, wanted, lasting = alive(observed), dict[Kind, int](), dict[Kind, int]()
        for size in self._sizes:
            waits = queues.get(planned_stage(size.stage), 0.0)
            needs_rps = clearing_rps(size, self.rate_rps, waits, there)
            times = self._heavier.times(now_s, size, self.rate_rps, needs_rps)
            wanted |= counts_for(size, self.rate_rps, times)
            lasting |= counts_for(size, lasting_rps, times)
        if not self._told:
            # What a plan or a controller before this one started counts as wanted just now.
            self._quiet.most(now_s, {kind: max(count, there[kind]) for kind, count in wanted.items()})
        # Ten minutes for bursts as well would buy little: Azure's six hours cost 5 % more so, for 0.1 points
        # fewer late.
        wanted, lasting = self._lately.most(now_s, wanted), self._quiet.most(now_s, lasting)
        wanted = {kind: max(count, lasting[kind]) for kind, count in wanted.items()}
        # Who stops as a burst begins is missed for as long as the next one takes to be ready.
        may_rps = self.arrivals.may_be_rps(peaks)
        for size in self._sizes:
            for kind, count in counts_for(size, may_rps).items():
                wanted[kind] = max(wanted[kind], min(count, there[kind]))
        if not self._follows:
            # Policies of one-pass models are solved for so many workers, so there are never fewer.
            planned = {kind: count for size in self._sizes for kind, count in size.counts.items()}
            wanted = {kind: max(count, planned[kind]) for kind, count in wanted.items()}
        counts, short = within(observed, self._sizes, wanted, there)
        self._short_since_s = (self._short_since_s or now_s) if short else None
        for kind, until_s in self._not_before_s.items():
            if kind in counts and now_s < until_s:
                counts[kind] = min(counts[kind], there[kind])
        self._tell(counts, there, load)
        return counts

    def _slowest_s(self, sizes: Iterable[StageSize]) -> float:
        return max((self._startup_s(kind) for size in sizes for kind in size.counts), default=0.0)

    def _rate_rps(self, startup_s: float, peaks: Mapping[float, float]) -> float | None:
        """The rate to come, by what came and by what days before foretell, of a load that bursts as `peaks` say."""
        seen_rps = self.arrivals.ahead_rps(startup_s, peaks)
        self.foretold = self.profile.ahead(self._journal.clock(), startup_s)
        foretold_rps = 0.0 if self.foretold is None else self.foretold.rps / peaks.get(STRETCH_S, 1.0)
        self._by_profile = seen_rps is not None and foretold_rps > (1.0 + RISE) * seen_rps
        return foretold_rps if self._by_profile else seen_rps

    def _keep(self, ended: list[int]) -> None:
        """Writes the profile's rates down, six hours at a time: a controller after this one goes on with them."""
        if not ended:
            return
        self._kept_to = ended[0] if self._kept_to is None else self._kept_to
        if ended[-1] - self._kept_to + 1 < KEPT:
            return
        rates = self.profile.rates(range(self._kept_to, ended[-1] + 1))
        self._kept_to = ended[-1] + 1
        what = f"{min(rates.values()):.3g} to {max(rates.values()):.3g} req/s in the last {KEPT * STRETCH_S / 3600:g} h"
        facts = {str(number): round(rps, 4) for number, rps in rates.items()}
        self._journal.note("profile", what, {"stretches": facts})

    def _tell(self, counts: Mapping[Kind, int], there: Mapping[Kind, int], load: Load) -> None:
        """Each change once."""
        changed = {kind: n for kind, n in counts.items() if n != self._told.get(kind, there.get(kind, 0))}
        self._told = counts
        if not changed:
            return
        parts = []
        for kind, count in sorted(changed.items()):
            parts.append(f"{count} of {planned_stage(kind.stage)} instead of {there.get(kind, 0)}")
        in_hand = sum(load.in_hand.values())
        why = f"{self.rate_rps:.3g} req/s ahead"
        if self._by_profile:
            why = str(self.foretold)
        what = f"{', '.join(parts)}: {why}, {in_hand:.0f} in hand"
        facts = {f"{kind.stage}/{kind.spec}": count for kind, count in sorted(counts.items())}
        self._journal.note("scaled", what, {"counts": facts, "rate_rps": round(self.rate_rps or 0.0, 4)})

    async def _take(self, step: Step, observed: Observed) -> None:
        """Raises `StepFailed`."""
        backend = self.backend
        if isinstance(step, Start):
            self._begun_s[step.name], self.grown_s = self._steady_s(), self._journal.clock()
            self._again_s.pop(step.name, None)
            await backend.take(step)
            self._beside(backend, AwaitReady(step.name), step.kind)
        elif isinstance(step, Drain):
            await backend.take(step)
            self._beside(backend, Stop(step.name), observed.replica(step.name).kind)
        elif isinstance(step, AwaitReady | Stop) and self._may_wait(step.name):
            self._beside(backend, step, observed.replica(step.name).kind)

    def _may_wait(self, name: str) -> bool:
        """Tells whether nobody waits for it, nor has just done so in vain."""
        return name not in self._tasks and self._steady_s() >= self._again_s.get(name, -inf)

    def _beside(self, backend: Backend, step: AwaitReady | Stop, kind: Kind) -> None:
        async def waited() -> None:
            try:
                await backend.take(step)
                self._note(step, kind)
            except StepFailed as error:
                self._again_s[step.name] = self._steady_s() + WAIT_AGAIN_S
                self._not_done(kind if isinstance(step, AwaitReady) else None, error)
            finally:
                # `rest` may have let go of it, and another look begun it again under the same name.
                if self._tasks.get(step.name) is asyncio.current_task():
                    del self._tasks[step.name]

        self._tasks[step.name] = asyncio.get_running_loop().create_task(waited())

    def _not_done(self, kind: Kind | None, error: StepFailed) -> None:
        """`kind` that could not be started is left alone for a while."""
        if kind is not None:
            self._not_before_s[kind] = self._steady_s() + AGAIN_S
        self._journal.note("scaled", f"not done: {error}", {})

    def _tell_silence(self, silent: bool) -> None:
        """Once each time. Replicas stay as they are meanwhile."""
        if silent and not self._silent:
            self._journal.note("scaled", "not done: the routers do not tell their load", {})
        self._silent = silent

    def _note(self, step: AwaitReady | Stop, kind: Kind) -> None:
        """Notes what a start took: the next is foreseen to take as long."""
        began_s = self._begun_s.pop(step.name, None)
        if isinstance(step, AwaitReady):
            self.grown_s = self._journal.clock()
        if isinstance(step, AwaitReady) and began_s is not None:
            took_s = round(self._steady_s() - began_s, 3)
            facts = {"took_s": took_s, "startup_s": took_s, "spec": kind.spec, "stage": kind.stage}
            self._journal.note("step", str(step), facts)
            self._startup_s = self._startups(self._journal.state.entries())


def follows_rate(plan: Plan) -> bool:
    """Tells whether a plan's replicas are to follow the rate: where it was not made for least cost, none is let go; and
    another number of workers that share policies wants other policies, so another plan."""
    return plan.objective.goal == "cost" and not plan.policies


def _kept(entries: list[Entry]) -> dict[int, float]:
    """Rates that controllers before this one wrote down."""
    known: dict[int, float] = {}
    for entry in entries:
        if entry.kind == "profile":
            # One that somebody wrote otherwise costs only itself.
            with suppress(KeyError, ValueError, TypeError, AttributeError):
                known |= {int(number): float(rps) for number, rps in entry.facts["stretches"].items()}
    return known

"""Ways to run a day: the controller, plans that stay, a plan an hour, and one who knows each change as it comes."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import count, pairwise
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cascadia.controller.decide.decide import MovePolicy
from cascadia.controller.decide.settings import Settings
from cascadia.controller.detect.detect import Detection
from cascadia.controller.loop import Controller
from cascadia.controller.memory.history import Entry
from cascadia.controller.memory.state import FileState, write_in_force
from cascadia.controller.move.state import Kind
from cascadia.controller.move.steps import AwaitReady, Drain, Start, Stop
from cascadia.controller.scale.profile import DAY as STRETCHES
from cascadia.controller.scale.profile import STRETCH_S
from cascadia.controller.shipped import AT_ONCE, LEAST_EVALUATIONS, WINDOW_S
from cascadia.domain.workload import Floats
from cascadia.files.plan_file import read_plan
from cascadia.planner.problem.quality_file import write_quality
from cascadia.reproduce.adapt.days import HOUR_S, Day, Ints
from cascadia.reproduce.adapt.fleet import SimulatedFleet, Startup, startup_by_size
from cascadia.reproduce.adapt.plans import KeptPlanner, plan_for
from cascadia.router.observers.shadow import BURST_S
from cascadia_sim.engine.results import quantile
from cascadia_sim.iteration.timing import PS_PER_S

TAIL_S = 600.0
"""After the day's last request, for what is still on its way."""
SHADOW = 20
"""One in so many requests goes through all stages."""
BURST = 2
PEAK_S = 300.0
EVERY_S, RATE_S, QUIET_S = 10.0, 120.0, 600.0
"""Of the forty lines: how often they look, over how long they take the rate, and for how long it must be quiet."""
MOVE_ALWAYS = MovePolicy(least_gain=1e-6, margin=0.0, cooldown_s=0.0, moves_per_day=10_000, free_moves=10_000)


@dataclass(frozen=True, slots=True)
class World:
    """World that all ways of a day share. `planning_s` and `startup_s` pass on the fleet's clock."""

    day: Day
    folder: Path
    first: Path
    planning_s: float = 20.0
    startup_s: Startup = startup_by_size
    at_once: int = AT_ONCE
    gpus: int = 256
    least_evaluations: int = LEAST_EVALUATIONS

    def fleet(self) -> SimulatedFleet:
        return SimulatedFleet(self.day, self.first, self.gpus, self.startup_s)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Shares of all requests (0-1): `attained` of those answered within the SLO, `refused` those turned away.

    `gpus`: since when (s) how many were held.
    """

    way: str
    requests: int
    attained: float
    _: KW_ONLY
    p95_s: float
    refused: float
    quality: float
    usd: float
    moves: int
    attained_by_hour: list[float]
    quality_by_hour: list[float]
    gpus: list[tuple[float, int]]
    entries: list[Entry] = field(default_factory=list)


def stays(world: World, name: str, plan: Path, tell: Callable[[float], None]) -> Outcome:
    """One plan all day."""
    fleet = SimulatedFleet(world.day, plan, world.gpus)
    _pass(fleet, world.day.duration_s, tell)
    return _outcome(name, world, fleet, [])


def oracle(world: World, plans: list[tuple[float, Path]], tell: Callable[[float], None]) -> Outcome:
    """Each plan from its second on, at once and for nothing."""
    fleet = SimulatedFleet(world.day, plans[0][1], world.gpus)
    for at_s, plan in plans[1:]:
        _pass(fleet, at_s, tell)
        fleet.swap(plan)
    _pass(fleet, world.day.duration_s, tell)
    return _outcome("oracle", world, fleet, [], moves=len(plans) - 1)


def oracle_of_peaks(world: World, tell: Callable[[float], None]) -> Outcome:
    """Each hour the plan that is cheapest for the rate of its busiest five minutes, at once and for nothing.

    Hours whose peaks are within 5 % and that ask the same share one plan, for the largest peak among them. An hour in
    which the regime changes is two.
    """
    day, fleet = world.day, SimulatedFleet(world.day, world.first, world.gpus)
    peaks = [Peak(*hour, *_peak(day, *hour)) for hour in hours_of(day)]
    before: Path | None = None
    for at_s, _, name, peak_rps in peaks:
        of_kind = [peak for peak in peaks if peak.regime == name and peak.rps <= 1.05 * peak_rps]
        largest = max(of_kind, key=lambda peak: peak.rps)
        plan = plan_for(day, world.folder / "peaks", largest.from_s, largest.until_s, largest.rps)
        _pass(fleet, at_s, tell)
        if plan != before:
            fleet.swap(plan)
        before = plan
    _pass(fleet, day.duration_s, tell)
    return _outcome("an oracle of each hour's peak", world, fleet, [], moves=len(peaks))


class Peak(NamedTuple):
    """A stretch of one regime, and the rate in its busiest five minutes."""

    from_s: float
    until_s: float
    regime: str
    rps: float


def hours_of(day: Day) -> list[tuple[float, float]]:
    """The day's hours, cut where another regime begins."""
    cuts = {regime.start_s for regime in day.regimes} | set(np.arange(0.0, day.duration_s, HOUR_S).tolist())
    return list(pairwise(sorted({*cuts, day.duration_s})))


def _peak(day: Day, from_s: float, until_s: float) -> tuple[str, float]:
    name = [regime.name for regime in day.regimes if regime.start_s <= from_s][-1]
    edges = np.append(np.arange(from_s, until_s - PEAK_S / 2.0, PEAK_S), until_s)
    counts = np.diff(np.searchsorted(day.trace.arrival_s, edges))
    return name, float((counts / np.diff(edges)).max())


def adaptive(
    world: World,
    name: str,
    tell: Callable[[float], None],
    settings: dict[str, object] | None = None,
    before: Sequence[Day] = (),
) -> Outcome:
    """The controller as it is, which has seen the days `before`, the latest last."""
    fleet = world.fleet()
    controller = controller_of(world, name, fleet, settings or {}, scales=True, before=before)
    asyncio.run(live(world, fleet, controller, tell))
    return _outcome(name, world, fleet, controller.state.entries())


def inner_loop(world: World, tell: Callable[[float], None]) -> Outcome:
    """The controller's inner loop alone: nobody plans."""
    fleet = world.fleet()
    controller = controller_of(world, "inner", fleet, {}, scales=True)

    async def scaled() -> None:
        fleet.look = controller.scale
        while fleet.now_s < world.day.duration_s:
            await fleet.drive(fleet.now_s + WINDOW_S)
            tell(fleet.now_s)
        await controller.rest()

    asyncio.run(scaled())
    return _outcome("the inner loop alone", world, fleet, controller.state.entries())


async def live(
    world: World,
    fleet: SimulatedFleet,
    controller: Controller,
    tell: Callable[[float], None] = lambda _: None,
) -> None:
    """The day with both loops."""
    fleet.look = controller.scale
    while fleet.now_s < world.day.duration_s:
        await fleet.drive(fleet.now_s + WINDOW_S)
        await controller.tick()
        tell(fleet.now_s)
    await controller.rest()


def every(world: World, period_s: float, tell: Callable[[float], None]) -> Outcome:
    """Plans for the last period's traffic at the end of each, and moves there whatever it is worth."""
    fleet = world.fleet()
    controller = controller_of(
        world, f"every-{period_s:.0f}", fleet, {"move_policy": MOVE_ALWAYS, "headroom": 0.0}
    )

    async def live() -> None:
        for begin_s, end_s in pairwise(np.arange(0.0, world.day.duration_s, period_s)):
            _pass(fleet, float(end_s), tell)
            past = fleet.log(period_s + 60.0).between(float(begin_s), float(end_s))
            await controller.reconsider(past, float(begin_s))

    asyncio.run(live())
    _pass(fleet, world.day.duration_s, tell)
    return _outcome(f"a plan every {period_s / HOUR_S:g} h", world, fleet, controller.state.entries())


def forty_lines(world: World, tell: Callable[[float], None]) -> Outcome:
    """Replicas of the plan's own shapes in proportion to the rate of the last two minutes, started at once, stopped
    after ten quiet minutes. Nothing else: the least that a controller has to be better than."""
    fleet = world.fleet()
    planned = read_plan(world.first)
    counts = fleet.desired(world.first, {}).counts
    wanted_of_late: deque[dict[Kind, int]] = deque(maxlen=round(QUIET_S / EVERY_S))
    names = map(str, count())

    async def look() -> None:
        came = fleet.day.part(fleet.now_s - RATE_S, fleet.now_s)
        share = (came.stop - came.start) / min(RATE_S, fleet.now_s) / planned.predicted.rate_rps
        wanted_of_late.append({kind: max(1, ceil(share * n)) for kind, n in counts.items()})
        observed = await fleet.observe()
        for kind in counts:
            alive = [r for r in observed.replicas if r.kind == kind and r.state != "draining"]
            for _ in range(wanted_of_late[-1][kind] - len(alive)):
                if fleet.used + kind.gpus <= world.gpus:
                    await fleet.take(Start(f"{kind.stage}+{next(names)}", kind))
            for replica in alive:
                if replica.state == "starting" and fleet.is_loaded(replica.name):
                    await fleet.take(AwaitReady(replica.name))
            most = max(each[kind] for each in wanted_of_late)
            ready = [r for r in alive if r.state == "ready"]
            for replica in ready[: max(0, min(len(alive) - most, len(ready) - 1))]:
                await fleet.take(Drain(replica.name))
        for replica in observed.replicas:
            if replica.state == "draining" and not replica.running:
                await fleet.take(Stop(replica.name))

    async def live() -> None:
        while fleet.now_s < world.day.duration_s:
            fleet.run_until(fleet.now_s + EVERY_S)
            await look()
            tell(fleet.now_s)

    asyncio.run(live())
    return _outcome("the forty lines", world, fleet, [])


class Evaluations:
    """One in `SHADOW` requests goes through all stages as it comes, and one in `BURST` for ten minutes after an alarm.
    They take no GPU time here."""

    def __init__(self, day: Day, fleet: SimulatedFleet) -> None:
        self.day = day
        self.fleet = fleet
        every = np.arange(len(day.row))
        self._looked = every % SHADOW == 0
        self._burst = every % BURST == 0

    def count(self, since_s: float) -> int:
        return len(self._since(since_s))

    def write(self, since_s: float, path: Path) -> None:
        write_quality(self.day.table_of(self._since(since_s)), path)

    def by_gear(self, since_s: float) -> tuple[Ints, Floats]:
        """Empty: nobody is served in a gear here."""
        return np.zeros(0, np.int64), np.zeros(0)

    def scores(self, since_s: float) -> tuple[Ints, Floats]:
        found = self._since(since_s)
        return self.fleet.cascade.gears[found], self.day.table.score[:, self.day.row[found]].T

    def ask(self) -> None:
        part = self.day.part(self.fleet.now_s, self.fleet.now_s + BURST_S)
        self._looked[part] |= self._burst[part]

    def _since(self, since_s: float) -> Ints:
        part = self.day.part(max(since_s, 0.0), self.fleet.now_s)
        found: Ints = np.flatnonzero(self._looked[part]) + part.start
        return found


def _rates(before: Sequence[Day]) -> dict[str, float]:
    """Rates of days before, as a controller writes them down: by stretches that end with midnight."""
    found: dict[str, float] = {}
    for days, day in enumerate(reversed(before), 1):
        came = np.bincount((day.trace.arrival_s // STRETCH_S).astype(np.int64), minlength=STRETCHES)
        rates = (came[:STRETCHES] / STRETCH_S).tolist()
        found |= {str(i - days * STRETCHES): rps for i, rps in enumerate(rates)}
    return found


def controller_of(
    world: World,
    name: str,
    fleet: SimulatedFleet,
    changes: dict[str, object],
    *,
    scales: bool = False,
    before: Sequence[Day] = (),
) -> Controller:
    """The inner loop is off unless it `scales`."""
    folder = world.folder / "runs" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "history.jsonl").unlink(missing_ok=True)
    write_in_force(folder, world.first)
    if before:
        FileState(folder).add(Entry(0.0, "profile", "days before", {"stretches": _rates(before)}))
    given = {
        "detection": Detection(window_s=WINDOW_S),
        "at_once": world.at_once,
        "least_evaluations": world.least_evaluations,
        **changes,
    }
    settings = Settings(folder, world.day.write(world.folder / "spec"), **given)  # type: ignore[arg-type]

    return Controller(
        settings,
        fleet,
        fleet.log,
        KeptPlanner(world.folder / "plans", fleet, world.planning_s),
        clock=lambda: fleet.now_s,
        load=fleet if scales else None,
        evaluations=Evaluations(world.day, fleet),
    )


def _pass(fleet: SimulatedFleet, until_s: float, tell: Callable[[float], None]) -> None:
    while fleet.now_s < until_s:
        fleet.run_until(min(until_s, fleet.now_s + HOUR_S))
        tell(fleet.now_s)


def _outcome(
    name: str, world: World, fleet: SimulatedFleet, entries: list[Entry], moves: int | None = None
) -> Outcome:
    day = world.day
    fleet.settle()
    usd_per_gpu_s = read_plan(world.first).cluster.pools[0].usd_per_gpu_hour / HOUR_S
    bill = fleet.gpu_s * usd_per_gpu_s
    fleet.run_until(max(fleet.now_s, day.duration_s) + TAIL_S)
    answers = fleet.cascade.answers()
    answered = answers.finish_ps >= 0
    latency_s = np.where(answered, answers.finish_ps / PS_PER_S - day.trace.arrival_s, np.inf)
    within = latency_s <= day.slo_s
    quality = np.where(answered, day.table.quality[answers.by, day.row], 0.0)
    hour = (day.trace.arrival_s // HOUR_S).astype(np.int64)
    each, given = np.bincount(hour), np.maximum(np.bincount(hour, answered), 1)
    moved = sum(entry.kind == "begun" for entry in entries) if moves is None else moves
    return Outcome(
        name,
        len(day.trace),
        float(within.mean()),
        p95_s=quantile(latency_s, 0.95),
        refused=float(answers.refused.mean()),
        quality=float(quality[answered].mean()),
        usd=bill,
        moves=moved,
        attained_by_hour=(np.bincount(hour, within) / each).tolist(),
        quality_by_hour=(np.bincount(hour, quality) / given).tolist(),
        gpus=fleet.in_use,
        entries=entries,
    )

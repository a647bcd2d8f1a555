"""A fleet that exists in the simulator only, on its own clock: what the controller observes, and what its steps do.

A start takes as long as its model's weights need, a stop until the replica's last request is answered; all the while
requests arrive and are served. The clock stands still while the controller thinks, except where it waits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cascadia.controller.detect.windows import Samples
from cascadia.controller.move.backend import StepFailed
from cascadia.controller.move.state import Desired, Kind, Observed, Replica, Routing
from cascadia.controller.move.steps import AwaitReady, Drain, Route, Start, Step, Stop, Undrain
from cascadia.controller.scale.size import Load
from cascadia.dispatch.turns import takes_other
from cascadia.domain.plan import ASKS_NONE, Deployed, Plan
from cascadia.files.plan_file import read_plan
from cascadia.planner.problem.models import find_architecture
from cascadia.reproduce.adapt.days import Day, Ints
from cascadia.reproduce.adapt.rungs import JUDGE, Rung, Rungs, routing_of
from cascadia_sim.cascade.parts import Bools
from cascadia_sim.cascade.rolling import CascadeRequests, RollingCascade, VerdictTokens
from cascadia_sim.cascade.rolling import Routing as SimulatedRouting
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming

LOG_S = 30.0
"""The router ends a file of its workload log so often."""
KEPT_S = 1200.0
PATIENCE_S = 60.0
"""The router's queue_s: a replica that has more seconds of work in hand takes nobody in."""
SATURATING = 500
"""Requests of the day by which a replica's speed is told."""
DRAIN_STRIDE_S = 1.0
LEAST_CAPACITY = 1e-3
LOOK_S = 5.0
"""So often the inner loop looks."""
ANY_S = 1200.0
"""Nobody is under way for longer."""
Startup = Callable[[float], float]
Floats = NDArray[np.float64]


def startup_by_size(weight_bytes: float) -> float:
    """Seconds from start to ready: an engine's own start, and weights read at 2 GB/s."""
    return 40.0 + weight_bytes / 2e9


@dataclass(slots=True)
class Running:
    """`lane` is None until it is ready."""

    replica: Replica
    ready_s: float
    started_s: float
    lane: int | None = None


class SimulatedFleet:
    """Backend and fleet of a controller. It begins with plan `first` in force; `startup_s` is of a model's weights."""

    def __init__(self, day: Day, first: Path, gpus: int = 256, startup_s: Startup = startup_by_size) -> None:
        self.day = day
        self.backend = self
        self.now_s = self._looked_s = 0.0
        self.gpu_s = 0.0
        self._away, self._away_to = np.zeros(len(day.table.stages)), 0
        """Whom each stage turned away, of the requests up to this one."""
        self.look: Callable[[], Awaitable[None]] | None = None
        """The inner loop's, called every `LOOK_S`."""
        self._driver: asyncio.Task[object] | None = None
        self.in_use: list[tuple[float, int]] = []
        """Since when how many GPUs were held."""
        self._gpus = gpus
        self._startup_s = startup_s
        self._running: dict[str, Running] = {}
        self._routing: Routing | None = None
        self._plans: dict[tuple[str, str], tuple[Plan, Deployed, int, int]] = {}
        self._capacity_rps: dict[Kind, float] = {}
        self._ladders: dict[Routing, Rungs] = {}
        self._rungs: list[tuple[int, Rungs]] = []
        """From which request on which were in force."""
        judge = read_plan(first).judge
        self._verdict = VerdictTokens(judge.prompt_tokens, judge.output_tokens)
        self._tokens_per_s: dict[Kind, float] = {}
        self.cascade = RollingCascade(asked_of(day), self._verdict, most_load=PATIENCE_S)
        self.swap(first)

    # What a controller sees.

    async def observe(self) -> Observed:
        replicas = tuple(self._observed(running) for running in self._running.values())
        return Observed(replicas, {self.pool: self._gpus}, self._routing)

    def desired(self, plan: Path, need_rps: dict[str, float]) -> Desired:
        found = read_plan(plan)
        counts: dict[Kind, int] = {}
        capacity: dict[Kind, float] = {}
        units: list[tuple[str, Deployed]] = [(s.name, s) for s in found.stages]
        for name, unit in [*units, (JUDGE, found.judge)]:
            predicted = next((p for p in found.predicted.stages if p.name == name), found.predicted.judge)
            for group in unit.replicas:
                kind = Kind(name, group.pool, group.tp * group.pp, f"TP{group.tp} PP{group.pp}")
                counts[kind] = group.count
                rate_rps = predicted.rate_rps if predicted is not None else 1.0
                capacity[kind] = max(rate_rps * group.share / group.count, 1e-6)
                self._capacity_rps[kind] = capacity[kind]
                self._plans[name, kind.spec] = found, unit, group.tp, group.pp
                self.pool = group.pool
        rungs = Rungs.of(found)
        self._ladders[routing_of(found)] = rungs
        return Desired(counts, routing_of(found), need_rps, capacity)

    def log(self, kept_s: float = KEPT_S) -> Samples:
        """The workload log since `kept_s` before the last look: whoever was answered before its last file ended."""
        day, known_s = self.day, self.now_s // LOG_S * LOG_S
        kept_s += self.now_s - self._looked_s
        self._looked_s = self.now_s
        part = day.part(self.now_s - kept_s, known_s)
        answers = self.cascade.answers(part.start, part.stop)
        # Who is turned away is told so at once, and the log at once that it came.
        done = (answers.finish_ps >= 0) & (answers.finish_ps <= known_s * PS_PER_S) | answers.refused
        told, by = np.flatnonzero(done) + part.start, answers.by[done]
        scores = {}
        gated = self._gated(told)
        for s, stage in enumerate(day.table.stages):
            seen = gated[s] & (by >= s)
            if seen.any():
                scores[stage] = np.where(seen, day.table.score[s, day.row[told]], np.nan)
        trace = day.trace
        arrival_s = trace.arrival_s[told]
        e2e_s = np.where(answers.refused[done], np.inf, answers.finish_ps[done] / PS_PER_S - arrival_s)
        came_s = trace.arrival_s[part]
        return Samples(
            arrival_s,
            trace.input_tokens[told],
            trace.output_tokens[told],
            scores=scores,
            ratio=1.0,
            came_s=came_s,
            e2e_s=e2e_s,
            gear=self.cascade.gears[told].astype(np.int64),
        )

    async def load(self) -> Load:
        """As routers tell it: of the judge as well, where it has replicas."""
        part, stages = self.day.part(self.now_s - ANY_S, self.now_s), self.day.table.stages
        in_hand = self.cascade.in_hand(part.start, part.stop)
        self._away += self.cascade.turned_away(self._away_to, part.start)
        self._away_to = part.start
        away = self._away + self.cascade.turned_away(part.start, part.stop)
        return Load(
            float(part.stop),
            dict(zip((*stages, JUDGE), map(float, in_hand), strict=True)),
            dict(zip(stages, map(float, away), strict=True)),
        )

    # What its steps do.

    async def take(self, step: Step) -> None:
        match step:
            case Start(name, kind):
                if self.used + kind.gpus > self._gpus:
                    raise StepFailed(f"{step}: {self.used} of {self._gpus} GPUs are taken")
                ready_s = self.now_s + self._startup_s(self._weight_bytes(kind))
                self._running[name] = Running(Replica(name, kind, "starting"), ready_s, self.now_s)
                self._count()
            case AwaitReady(name):
                await self.pass_until(self._running[name].ready_s)
                if self._running[name].lane is None:
                    self._open(name)
            case Drain(name):
                running = self._running[name]
                assert running.lane is not None
                self.cascade.close(running.lane)
                running.replica = replace(running.replica, state="draining")
                self._count_capacity()
            case Stop(name):
                while not self._idle(name):
                    await self.pass_until(self.now_s + DRAIN_STRIDE_S)
                self._stop(name)
            case Route(routing):
                self.route(routing)
            case Undrain():
                raise StepFailed(f"{step}: what drains in this fleet has gone")

    async def drive(self, until_s: float) -> None:
        """Whoever calls this winds the clock from now on, also where it waits in a step; all others wait for it."""
        self._driver = asyncio.current_task()
        await self.pass_until(until_s)

    async def pass_until(self, until_s: float) -> None:
        while self.now_s < until_s:
            if self.look is None:
                self.run_until(until_s)
            elif asyncio.current_task() is not self._driver:
                await asyncio.sleep(0.0)
            else:
                self.run_until(min(until_s, (self.now_s // LOOK_S + 1.0) * LOOK_S))
                for _ in range(2):
                    await asyncio.sleep(0.0)
                if self.now_s % LOOK_S == 0.0:
                    await self.look()

    def run_until(self, until_s: float) -> None:
        """Runs until then; where that has passed nothing happens."""
        if until_s > self.now_s:
            self.now_s = until_s
            self.cascade.advance(round(until_s * PS_PER_S))

    def swap(self, plan: Path) -> None:
        """Swaps to `plan` at once and for nothing, as only an oracle can; also how a day begins."""
        desired = self.desired(plan, {})
        before = list(self._running)
        number = sum(1 for _ in self.in_use)
        for kind, count in desired.counts.items():
            for i in range(count):
                name = f"{kind.stage}-{kind.spec}-{number}-{i}"
                self._running[name] = Running(Replica(name, kind, "starting"), self.now_s, self.now_s)
                self._open(name)
        self.route(desired.routing)
        for name in before:
            running = self._running.pop(name)
            assert running.lane is not None
            self.cascade.close(running.lane)
            self.gpu_s += (self.now_s - running.started_s) * running.replica.kind.gpus
        self._count()
        self._count_capacity()

    def route(self, routing: Routing) -> None:
        """A plan's routing goes by its ladder, as its router does."""
        rungs = self._ladders.get(routing) or Rungs.of_routing(routing)
        self.cascade.shift([self._by(rung) for rung in rungs.rungs], rungs.borders)
        self._rungs.append((self.day.part(0.0, self.now_s).stop, rungs))
        self._routing = routing
        self._count_capacity()

    def _by(self, rung: Rung) -> SimulatedRouting:
        table = self.day.table
        stages = tuple(table.stages.index(stage) for stage in rung.stages)
        every = np.arange(len(self.day.trace))
        accept, enter, judged = np.ones((3, len(table.stages), len(every)), bool)
        for stage, threshold in self._gates(rung, every):
            accept[stage] = table.score[stage, self.day.row] >= threshold
            enter[stage] = threshold < ASKS_NONE
            judged[stage] = _asks_judge(threshold)
        return SimulatedRouting(stages, accept, *((enter, judged) if rung.other else ()))

    def _gates(self, rung: Rung, who: Ints) -> Iterator[tuple[int, Floats]]:
        """Each gate's stage and the thresholds [n] that `who` meet there: of mixed routings in turn."""
        turns = takes_other(who, rung.share)
        gates = zip(rung.stages[:-1], rung.thresholds, rung.other or rung.thresholds, strict=True)
        for stage, own, other in gates:
            yield self.day.table.stages.index(stage), np.where(turns, other, own)

    def _gated(self, told: Ints) -> Bools:
        """Marks whose answer is scored at each stage [S, n] where he is asked."""
        names, gear = self.day.table.stages, self.cascade.gears[told]
        gated = np.zeros((len(names), len(told)), bool)
        since = np.searchsorted([first for first, _ in self._rungs], told, side="right") - 1
        for at, (_, rungs) in enumerate(self._rungs):
            for number, rung in enumerate(rungs.rungs):
                scored = np.isin(names, rung.stages[:-1])[:, None]
                if rung.other:
                    scored = np.tile(scored, len(told))
                    for stage, threshold in self._gates(rung, told):
                        scored[stage] = _asks_judge(threshold)
                gated |= scored & (since == at) & (gear == number)
        return gated

    def _count_capacity(self) -> None:
        """Scales the borders by what serves over what was planned, as a router does (`router/live/gears.py`)."""
        if not self._rungs or len((rungs := self._rungs[-1][1]).rungs) < 2:
            return
        serves = dict.fromkeys(rungs.planned_rps, 0.0)
        for running in self._running.values():
            if running.replica.state == "ready" and running.replica.kind.stage in serves:
                serves[running.replica.kind.stage] += self._capacity_rps[running.replica.kind]
        shares = (room * serves[stage] / rungs.planned_rps[stage] for stage, room in rungs.rooms.items())
        self.cascade.ready(max(LEAST_CAPACITY, min(shares)))

    def settle(self) -> None:
        """The bill for what still runs."""
        for running in self._running.values():
            self.gpu_s += (self.now_s - running.started_s) * running.replica.kind.gpus
            running.started_s = self.now_s

    @property
    def used(self) -> int:
        return sum(r.replica.kind.gpus for r in self._running.values())

    def _open(self, name: str) -> None:
        running = self._running[name]
        kind = running.replica.kind
        running.lane = self.cascade.open(self._group(kind), self._timing(kind), self._speed(kind))
        running.replica = replace(running.replica, state="ready")
        self._count_capacity()

    def _stop(self, name: str) -> None:
        running = self._running[name]
        self.gpu_s += (self.now_s - running.started_s) * running.replica.kind.gpus
        del self._running[name]
        self._count()

    def is_loaded(self, name: str) -> bool:
        return self._running[name].ready_s <= self.now_s

    def _idle(self, name: str) -> bool:
        lane = self._running[name].lane
        return lane is None or self.cascade.idle(lane)

    def _count(self) -> None:
        self.in_use.append((self.now_s, self.used))

    def _observed(self, running: Running) -> Replica:
        # Whether one is idle is asked of many requests, so of those alone that are about to stop.
        leaves = running.replica.state == "draining"
        busy = leaves and running.lane is not None and not self.cascade.idle(running.lane)
        return replace(running.replica, running=int(busy))

    def _group(self, kind: Kind) -> int:
        return self.cascade.judge_group if kind.stage == JUDGE else self.day.table.stages.index(kind.stage)

    def _timing(self, kind: Kind) -> ReplicaTiming:
        plan, unit, tp, pp = self._plans[kind.stage, kind.spec]
        assert unit.model is not None
        pool = plan.cluster.pool(kind.pool)
        architecture = find_architecture(unit.model, Path(), kind.stage)
        return replica_timing(
            architecture, gpu(pool.gpu), tp=tp, pp=pp, config=unit.config, gpus_per_node=pool.gpus_per_node
        )

    def _speed(self, kind: Kind) -> float:
        """Tokens a second, of prompts and answers, that a replica gets done when it always has enough to do."""
        if kind not in self._tokens_per_s:
            timing, group, asked = self._timing(kind), self._group(kind), self.cascade.asked
            some = np.linspace(0, len(self.day.trace) - 1, SATURATING).astype(np.int64)
            stage = min(group, len(asked.input_tokens) - 1)
            read, wrote = asked.input_tokens[stage, some], asked.output_tokens[stage, some]
            if group == self.cascade.judge_group:
                read, wrote = read + wrote + self._verdict.prompt, np.full_like(wrote, self._verdict.output)
            nothing = np.zeros_like(read)
            run = simulate_replica(timing, nothing, read, wrote, nothing)
            self._tokens_per_s[kind] = float((read + wrote).sum() / (run.finish_ps.max() / PS_PER_S))
        return self._tokens_per_s[kind]

    def _weight_bytes(self, kind: Kind) -> float:
        _, unit, *_ = self._plans[kind.stage, kind.spec]
        assert unit.model is not None
        return find_architecture(unit.model, Path(), kind.stage).weight_bytes(unit.quantization)


def _asks_judge(threshold: Floats) -> Bools:
    """Marks where an answer is scored: where a stage is asked, and not all of its answers are kept."""
    return (threshold > 0) & (threshold < ASKS_NONE)


def asked_of(day: Day) -> CascadeRequests:
    """Lengths as each stage sees them: the trace's, answers scaled by what the table says of the stage."""
    ratio = day.table.output_tokens.mean(axis=1)
    ratio = ratio / ratio.mean()
    trace = day.trace
    written = np.maximum(np.rint(ratio[:, None] * trace.output_tokens), 1).astype(np.int64)
    read = np.repeat(trace.input_tokens[None, :], len(ratio), axis=0)
    return CascadeRequests(np.rint(trace.arrival_s * PS_PER_S).astype(np.int64), read, written)

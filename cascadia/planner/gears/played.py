"""A ladder on a whole trace: which gear each request gets, and what becomes of all.

Which gear a request gets is told by the simulator's own network of stages, which follows the router's rule at each
arrival. With the gears known, the deployment is simulated as any other is.

That network lacks what depends on who comes: prefix caches that are simulated, and how many verdicts exits take. There
gears are told anew from when answers were there, until those are the answers of these gears. Each time what was told
rightly reaches further, since nobody's gear depends on who comes later.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.gear import Ladder, Shift
from cascadia.domain.problem import Problem
from cascadia.domain.workload import Floats
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.simulation import Simulator, replicas_of
from cascadia.planner.routing.routings import Decisions, Routings, requests_decided
from cascadia.planner.tables.loads import keeps_blocks, verdicts_each
from cascadia_sim.cascade.cascade import CascadeRun
from cascadia_sim.cascade.rolling import (
    CascadeRequests,
    RollingCascade,
    Routing,
    VerdictDelays,
    VerdictTokens,
)
from cascadia_sim.iteration.timing import PS_PER_S

Ints = NDArray[np.int64]

ROUNDS = 12
"""So often gears are told anew at most; on traces that were tried three were enough."""


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """`gear` (n) of each request, in order of arrival."""

    gear: Ints
    decided: Decisions
    run: CascadeRun

    @property
    def latency_s(self) -> Floats:
        latency: Floats = self.run.latency_ps / PS_PER_S
        return latency

    def gear_shares(self, gears: int) -> Floats:
        """The share (0-1) of the requests that each of so many gears gets."""
        return np.bincount(self.gear, minlength=gears) / len(self.gear)


@dataclass(eq=False)
class Decided:
    """Decisions on a simulator's requests, in order of arrival, under each routing; worked out once."""

    routings: Routings
    simulator: Simulator
    _known: dict[int, Decisions] = field(default_factory=dict)

    def __call__(self, routing: int) -> Decisions:
        if routing not in self._known:
            problem = self.simulator.problem
            rows = problem.workload.row
            self._known[routing] = requests_decided(problem.quality, rows, self.routings, routing)
        return self._known[routing]


def play(
    simulator: Simulator, deployment: Deployment, decided: Sequence[Decisions], ladder: Ladder
) -> Played:
    """`decided` on each request under each gear, the heaviest first."""
    gear = np.zeros(len(simulator.arrivals), np.int64)
    if ladder.borders:
        gear = _gears(simulator, deployment, decided, ladder)
    by = by_gear(decided, gear)
    run = simulator.run(deployment, by)
    for _ in range(ROUNDS if ladder.borders and _depends_on_who_comes(simulator.problem) else 0):
        told = gears_by(run, ladder)
        if np.array_equal(told, gear):
            break
        gear, by = told, by_gear(decided, told)
        run = simulator.run(deployment, by)
    return Played(gear, by, run)


def gears_by(run: CascadeRun, ladder: Ladder) -> Ints:
    """Gears (n) that the router's rule gives requests whose answers were there as they were in `run`."""
    under_way = np.arange(run.arrival_ps.size) - np.searchsorted(np.sort(run.finish_ps), run.arrival_ps)
    shift = Shift(ladder)
    met = zip(under_way.tolist(), (run.arrival_ps * 1e-12).tolist(), strict=True)
    return np.array([shift.arrival(others, now_s) for others, now_s in met], np.int64)


def _depends_on_who_comes(problem: Problem) -> bool:
    hosted = problem.judge.placement == "self-hosted" and problem.quality.verdicts is not None
    return hosted or any(keeps_blocks(problem, s) for s in range(len(problem.stages)))


def by_gear(decided: Sequence[Decisions], gear: Ints) -> Decisions:
    """Each request's own."""
    if len(decided) == 1:
        return decided[0]
    n = np.arange(len(gear))
    return Decisions(*(np.stack(parts)[gear, :, n].T for parts in zip(*decided, strict=True)))


def _gears(
    simulator: Simulator, deployment: Deployment, decided: Sequence[Decisions], ladder: Ladder
) -> Ints:
    problem = simulator.problem
    w, judge, stages = problem.workload, problem.judge, len(problem.stages)
    verdicts = (
        VerdictTokens(judge.prompt_tokens, judge.output_tokens)
        if simulator.delays is None
        else VerdictDelays(
            simulator.delays * np.max([verdicts_each(problem, d.judged) for d in decided], axis=0)
        )
    )
    asked = CascadeRequests(simulator.arrivals, w.input_tokens, w.output_tokens, simulator.cached)
    rules = [simulator.rule(s, deployment.mix(s)) for s in range(stages)]
    cascade = RollingCascade(asked, verdicts, apis=simulator.apis, rules=rules)
    for stage, mix in deployment.mixes:
        for replica in replicas_of(mix):
            cascade.open(stages if stage == JUDGE else stage, replica.timing, replica.weight)
    looked_ps = round(simulator.problem.foresight_s * PS_PER_S)
    cascade.shift([_routing(problem, each, looked_ps) for each in decided], ladder.borders)
    cascade.finish()
    return cascade.gears


def _routing(problem: Problem, decided: Decisions, looked_ps: int) -> Routing:
    """Routing of each request, as the network of stages has it: its verdicts at a stage as one."""
    asked = tuple(np.flatnonzero(decided.enters.any(axis=1)).tolist())
    looked = np.where(decided.foresees.any(axis=0), np.int64(looked_ps), np.int64(0))
    waits = looked if looked.any() else None
    tried = ~decided.judged & (verdicts_each(problem, decided.judged) > 0)
    return Routing(asked, decided.accepts, decided.enters, decided.judged, waits, tried=tried)

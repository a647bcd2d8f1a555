"""Context that the steps of a search share: the problem, its routings, the shapes of each stage, the tables
made so far.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.cluster import Pool
from cascadia.domain.deadline import Deadline
from cascadia.domain.problem import Problem
from cascadia.planner.allocation.demand import JUDGE, Demand
from cascadia.planner.deployment.simulation import Simulator, quantile_s, verdict_delays
from cascadia.planner.routing.routings import Decisions, Routings, requests_decided
from cascadia.planner.stability.capacity_shares import Capacities
from cascadia.planner.tables.loads import at_gates, judge_load, stage_load, verdict_reads, verdicts_each
from cascadia.planner.tables.shapes import Shape, shapes
from cascadia.planner.tables.tables import TableCache
from cascadia.planner.tables.worthwhile import worth_having
from cascadia_sim.cascade.first_stage import FirstRuns
from cascadia_sim.iteration.timing import PS_PER_S

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


Shapes = dict[int, tuple[Shape, ...]]
"""Shapes by stage index, a self-hosted judge's under `JUDGE`."""

LIGHT = 20
SPARE = 3
"""Tables go to levels of this many times the replicas there could be: for all requests, of which a routing may send a
stage few, and for one routing's, near which others send fewer."""


@dataclass(eq=False)
class Search:
    """`verdict_s`: a judge without GPUs."""

    problem: Problem
    routings: Routings
    shapes: Shapes
    tables: TableCache
    threads: ThreadPoolExecutor
    verdict_s: float
    capacities: Capacities = field(default_factory=Capacities)
    _decisions: dict[int, Decisions] = field(default_factory=dict)
    memory: dict[object, Any] = field(default_factory=dict)
    """What was simulated (`refinement/state.py`), for other searches of the same routings, workload and judge."""
    deadline: Deadline = field(default_factory=Deadline)
    first_runs: FirstRuns = field(default_factory=FirstRuns)
    every_shape: bool = False
    """Make tables of all shapes for each routing, also of those that others beat."""
    shapes_of: Callable[[Problem], Shapes] | None = None
    """What may be used of a problem, also where engines are configured otherwise; None: `find_shapes`."""
    _worth: dict[int, tuple[Shape, ...]] = field(default_factory=dict, init=False)

    @property
    def simulator(self) -> Simulator:
        return Simulator.of(self.problem, self.first_runs)

    @property
    def quantile(self) -> float:
        return self.problem.objective.quantile

    @property
    def self_hosted_judge(self) -> bool:
        return JUDGE in self.shapes

    def decisions(self, routing: int) -> Decisions:
        """Decisions of each stage on each request (n) that comes to it."""
        if routing not in self._decisions:
            self._decisions[routing] = decisions(self.problem, self.routings, routing)
        return self._decisions[routing]

    def asks(self, routing: int) -> bool:
        """Tells whether anybody waits for a verdict."""
        decided = self.decisions(routing)
        return bool((decided.reached & (verdicts_each(self.problem, decided.judged) > 0)).any())

    def on_gpus(self, routing: int) -> list[int]:
        """Stages that a routing deploys on GPUs: all but those elsewhere."""
        return [s for s in np.flatnonzero(self.routings.deployed[routing]).tolist() if s in self.shapes]

    def demands(self, routing: int) -> list[Demand]:
        """One demand per deployed stage, and one for a self-hosted judge where anything is judged."""
        reached_, gated = self.decisions(routing).reached, self.decisions(routing).judged
        waits: Bools = np.any(verdicts_each(self.problem, gated) > 0, axis=1)
        demands = [self.stage_demand(s, reached_[s], gated=bool(waits[s])) for s in self.on_gpus(routing)]
        if self.self_hosted_judge and waits.any():
            load = judge_load(self.problem, reached_, gated)
            if len(load):
                table = self.tables.table(
                    "judge", self._worthwhile(JUDGE), load, self.quantile, self._spare_budget
                )
                demands.append(Demand(JUDGE, "judge", table, gated=False))
        return demands

    def whole_demands(self) -> list[tuple[Demand, float]]:
        """Every stage with all requests, and the judge with the verdicts of all gates; each with its tokens."""
        n, stages = len(self.problem.workload), len(self.problem.stages)
        every = np.ones((stages, n), dtype=bool)
        found = [
            (self.stage_demand(s, every[s], gated=s < stages - 1, light=True), self.whole_work(s))
            for s in range(stages)
            if s in self.shapes and self.routings.deployed[:, s].any()
        ]
        if self.self_hosted_judge:
            found.append(self._whole_judge())
        return found

    def _whole_judge(self) -> tuple[Demand, float]:
        gates = at_gates(self.problem)
        load = judge_load(self.problem, np.ones_like(gates), gates)
        table = self.tables.table("judge", self.shapes[JUDGE], load, self.quantile, self._light_budget)
        return Demand(JUDGE, "judge", table, gated=False), float(load.input_tokens.sum())

    def _worthwhile(self, stage: int) -> tuple[Shape, ...]:
        """Shapes that a routing's tables have, told from the table of all requests."""
        if self.every_shape:
            return self.shapes[stage]
        if stage not in self._worth:
            if stage == JUDGE:
                demand = self._whole_judge()[0]
            else:
                every = np.ones(len(self.problem.workload), dtype=bool)
                demand = self.stage_demand(stage, every, gated=False, light=True)
            self._worth[stage] = worth_having(demand.table, self.problem.cluster)
        return self._worth[stage]

    def whole_work(self, stage: int) -> float:
        """Tokens of a stage that gets all requests."""
        w = self.problem.workload
        return float(w.input_tokens[stage].sum() + w.output_tokens[stage].sum())

    def stage_demand(self, s: int, reached_: Bools, *, gated: bool, light: bool = False) -> Demand:
        """`light`: with levels for routings that send the stage only a small part of the requests."""
        name = self.problem.stages[s].name
        load = stage_load(self.problem, s, reached_)
        budget = self._light_budget if light else self._spare_budget
        shapes_ = self.shapes[s] if light else self._worthwhile(s)
        table = self.tables.table(name, shapes_, load, self.quantile, budget)
        return Demand(s, name, table, gated)

    def _spare_budget(self, shape: Shape) -> int:
        return SPARE * self.budget(shape)

    def _light_budget(self, shape: Shape) -> int:
        return LIGHT * self.budget(shape)

    def budget(self, shape: Shape) -> int:
        """Number of replicas of `shape` that its pool could hold."""
        return self.problem.cluster.pool(shape.pool).gpus // shape.gpus


def decisions(problem: Problem, routings: Routings, routing: int) -> Decisions:
    return requests_decided(problem.quality, problem.workload.row, routings, routing)


def allowed(search: Search) -> Bools:
    """Routings whose lower bound reaches the bar, if there is one."""
    good: Bools = search.routings.lower >= (search.problem.objective.quality_min or 0.0)
    return good


def restricted(search: Search, routings: Routings) -> Search:
    """The same problem with other routings; tables stay, since they are keyed by what they were made for."""
    return replace(search, routings=routings, _decisions={}, memory={})


def on_pools(search: Search, pools: Sequence[Pool]) -> Search | None:
    """The same search with only these pools, or nodes of them, to deploy on; None where a stage, or the judge, fits on
    none of them.

    Tables, and all that was simulated, stay: they do not depend on what else there is.
    """
    gpus = {pool.name: pool.gpus for pool in pools}
    shapes_ = {
        s: tuple(c for c in choices if c.gpus <= gpus.get(c.pool, 0)) for s, choices in search.shapes.items()
    }
    if not all(shapes_.values()):
        return None
    problem = replace(search.problem, cluster=replace(search.problem.cluster, pools=tuple(pools)))
    return replace(search, problem=problem, shapes=shapes_)


def configured(search: Search, problem: Problem) -> Search:
    """The same search for `problem`, whose engines are configured otherwise. Raises as `find_shapes` does."""
    return start_search(problem, search.routings, search.threads, search.deadline, shapes_of=search.shapes_of)


def start_search(
    problem: Problem,
    routings: Routings,
    threads: ThreadPoolExecutor,
    deadline: Deadline | None = None,
    *,
    shapes_of: Callable[[Problem], Shapes] | None = None,
) -> Search:
    """Find every stage's shapes. `deadline`: none where None; `shapes_of` as of `Search`. Raises as `shapes` does for a
    stage that fits nowhere.
    """
    verdict_s = 0.0
    delays = verdict_delays(problem)
    if delays is not None:
        delays = delays * verdicts_each(problem, np.ones_like(delays, np.bool_))
        verdict_s = quantile_s(delays.ravel() / PS_PER_S, problem.objective.quantile)
    tables = TableCache(threads)
    return Search(
        problem,
        routings,
        (shapes_of or find_shapes)(problem),
        tables,
        threads,
        verdict_s,
        capacities=Capacities(tables.sustained),
        deadline=deadline or Deadline(),
        shapes_of=shapes_of,
    )


def find_shapes(problem: Problem, *, needless_too: bool = False) -> Shapes:
    """Shapes of each stage on GPUs, and of a self-hosted judge."""
    judge, cluster = problem.judge, problem.cluster
    found = {}
    for s, stage in enumerate(problem.stages):
        if stage.external is not None:
            continue
        longest = longest_request(problem, s)
        found[s] = shapes(stage.name, stage.built, stage.config, cluster, longest, needless_too=needless_too)
    if judge.placement == "self-hosted" and verdicts_each(problem, at_gates(problem)).any():
        assert judge.architecture is not None
        assert judge.config is not None
        longest = longest_request(problem, JUDGE)
        found[JUDGE] = shapes(
            "judge", judge.architecture, judge.config, cluster, longest, needless_too=needless_too
        )
    return found


def longest_request(problem: Problem, stage: int) -> int:
    """Tokens of the longest request that a stage, or the judge (`JUDGE`), may get: a replica must hold it."""
    w, judge = problem.workload, problem.judge
    if stage == JUDGE:
        every = np.ones_like(at_gates(problem))
        wrote = verdicts_each(problem, every) * judge.output_tokens
        longest = int((w.input_tokens + w.output_tokens).max()) + judge.prompt_tokens + judge.output_tokens
        return max(longest, int((verdict_reads(problem, every) + wrote).max()))
    return int((w.input_tokens[stage] + w.output_tokens[stage]).max())

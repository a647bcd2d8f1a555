"""State and yardsticks of a refinement: candidates, options of each routing, combinations, simulated cascades."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.cluster import Cluster
from cascadia.domain.objective import Metric
from cascadia.domain.problem import Problem
from cascadia.domain.workload import Workload
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.levels import reached_s
from cascadia.planner.deployment.options import Option, idle_usd, options, thinned
from cascadia.planner.deployment.simulation import Simulator, quantile_s
from cascadia.planner.search import elsewhere
from cascadia.planner.search.composition import Composer, best_combinations, descend, promised
from cascadia.planner.search.context import Search, decisions
from cascadia.planner.search.reference_tables import References
from cascadia.planner.stability.capacity_shares import limit_shares
from cascadia.planner.stability.certificate import Certificate, certify
from cascadia_sim.engine.requests import PastTheClock
from cascadia_sim.hardware.cores import usable_cores

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Effort:
    """Budget of simulation: routings looked at, combinations each, whole cascades (in requests, all told).

    `descents`: sweeps over all pairs of stages by which each routing's best combination is improved.
    """

    routings: int = 8
    combinations: int = 2000
    window_requests: int = 2500
    simulated_requests: int = 400_000
    fewest_simulations: int = 16
    descents: int = 0


EFFORT = Effort()
HURRIED = Effort(
    routings=2, combinations=200, window_requests=600, simulated_requests=0, fewest_simulations=8
)
"""Past a search's deadline, where nothing is known yet."""
SEVERAL_POOLS = Effort(routings=6, combinations=6000, simulated_requests=500_000, descents=3)


def effort_for(cluster: Cluster) -> Effort:
    """Several pools have many more ways to be used, and users of them more patience."""
    return EFFORT if len(cluster.pools) == 1 else SEVERAL_POOLS


NEARLY = 1.02
"""A combination may promise so many times a bound: composition is not exact."""

AT_ONCE = 4
"""Deployments that are simulated between two looks at the deadline, on few cores."""

PLAINLY_OVERLOADED = 1.05
"""A candidate's `load` from which it is none: what its tables stand for may be this far from what it is sent."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A deployment with its simulated end-to-end quantile and what it promises.

    `levels_s`: what is reached of each of the objective's `levels`. `load`: about the largest share of capacity that a
    stage is sent. `elsewhere_usd`: what APIs take an hour. `certificate`: None where none was asked for.
    """

    deployment: Deployment
    latency_s: float
    quality_lower: float
    load: float = 0.0
    levels_s: tuple[float, ...] = ()
    elsewhere_usd: float = 0.0
    certificate: Certificate | None = field(default=None, compare=False)

    @property
    def usd_per_hour(self) -> float:
        return self.deployment.usd_per_hour + self.elsewhere_usd

    @property
    def held_s(self) -> float:
        """Latency, or that of the certificate's repeats where it is larger."""
        if self.certificate is None:
            return self.latency_s
        return max(self.latency_s, self.certificate.stability.objective_repeated_s)

    @property
    def held_levels_s(self) -> tuple[float, ...]:
        if self.certificate is None:
            return self.levels_s
        return tuple(map(max, self.levels_s, self.certificate.levels_repeated_s))


@dataclass(eq=False)
class Refinement:
    """State of one refinement: what was simulated, and each routing's options."""

    search: Search
    simulator: Simulator
    references: References
    equal_parts: bool = False
    seen: dict[object, Candidate] = field(default_factory=dict)
    menus: dict[int, dict[int, list[Option]]] = field(default_factory=dict)

    def menu(self, routing: int) -> dict[int, list[Option]]:
        """Options of each demand of a routing, by `Demand.stage`; empty where some demand has none."""
        if routing not in self.menus:
            self.menus[routing] = self._menu(routing)
        return self.menus[routing]

    def _menu(self, routing: int) -> dict[int, list[Option]]:
        search = self.search
        stages = search.on_gpus(routing)
        if search.self_hosted_judge and search.asks(routing):
            stages.append(JUDGE)
        menu = {}
        for s in stages:
            demand, need = self.references.one(s, routing)
            menu[s] = options(
                demand, search.problem.cluster, need=need, most_gpus=self.most_gpus(len(stages))
            )
        return menu if all(menu.values()) else {}

    def most_gpus(self, demands: int) -> int | None:
        """GPUs that one of so many demands may take, where parts are equal; None: any number."""
        return self.search.problem.cluster.gpus // demands if self.equal_parts else None

    def simulate(self, deployments: Iterable[Deployment]) -> list[Candidate]:
        """Whole cascades, in parallel; each deployment once. Past the deadline all but the first few are left out."""
        wanted = {d.key: d for d in deployments}
        fresh = [d for key, d in wanted.items() if key not in self.seen]
        simulated = ("simulated", _asked(self.search.problem))
        known: dict[object, Candidate] = self.search.memory.setdefault(simulated, {})
        new = [d for d in fresh if d.key not in known]
        deadline, each = self.search.deadline, len(new)
        if deadline.left_s < inf:
            each = max(AT_ONCE, usable_cores())
        for first in range(0, len(new), max(each, 1)):
            if (first or self.seen) and deadline.leaves_out("deployments that steps lead to"):
                break
            some = new[first : first + each]
            for d, candidate in zip(some, self.search.threads.map(self._simulate, some), strict=True):
                known[d.key] = candidate
        self.seen |= {d.key: known[d.key] for d in fresh if d.key in known}
        return [self.seen[key] for key in wanted if key in self.seen]

    def _simulate(self, d: Deployment) -> Candidate:
        try:
            run = self.simulator.run(d, self.search.decisions(d.routing))
        except PastTheClock:
            # Its queues outgrow all time: none of what it would show is known, but that it keeps nothing.
            never = (inf,) * len(self.search.problem.objective.levels)
            return Candidate(d, inf, float(self.search.routings.lower[d.routing]), inf, never)
        latency = quantile_s(self.simulator.latency_s(run), self.search.quantile)
        problem = self.search.problem
        reached = reached_s(problem, run, problem.objective.levels)
        return Candidate(
            d,
            latency,
            float(self.search.routings.lower[d.routing]),
            self._load(d),
            reached,
            elsewhere.usd_per_hour(self.search, d.routing),
        )

    def _load(self, d: Deployment) -> float:
        """Load by the nearest tables, and of what APIs allow: near enough to leave out what is plainly overloaded."""
        worst = max(limit_shares(self.search.problem, self.search.decisions(d.routing)).values(), default=0.0)
        for stage, mix in d.mixes:
            if stage not in self.references.by_stage:
                continue
            demand, need = self.references.one(stage, d.routing)
            least = {id(x): v for x, v in zip(demand.shapes, demand.table.saturated.tolist(), strict=True)}
            if all(id(r.shape) in least for r in mix):
                carried = sum(r.count / max(least[id(r.shape)], 1e-9) for r in mix)
                worst = max(worst, self.search.tables.stable_share * need / carried)
        return worst

    def certified(self, c: Candidate) -> Candidate:
        """Candidate with its certificate, and what has settled where the trace is short."""
        found = self.certificate(c.deployment)
        reached = reached_s(found.problem, found.run, found.problem.objective.levels)
        if found.holds and (why := self.why_not_before(c.deployment)):
            found = replace(found, why=f"until exits are certified {why}")
        return replace(c, certificate=found, latency_s=found.stability.objective_once_s, levels_s=reached)

    def why_not_before(self, d: Deployment) -> str:
        """Reason why a deployment does not hold, or keep the bounds, before its exits are certified; empty where it
        does, or nothing is promised of exits.
        """
        before = before_certified(self.search, d)
        return "" if before is None else broken(before)

    def certify_together(self, candidates: Iterable[Candidate]) -> None:
        """Certificates of some that are likely to be asked, in parallel; they are kept."""
        asked = [c.deployment for c in candidates if c.certificate is None]
        asked = [d for d in asked if self._certificate_key(d) not in self._certificates]
        if len(asked) > 1:
            list(self.search.threads.map(self.certificate, asked))

    @property
    def _certificates(self) -> dict[object, Certificate]:
        known: dict[object, Certificate] = self.search.memory.setdefault("certified", {})
        return known

    def _certificate_key(self, d: Deployment) -> object:
        problem = self.search.problem
        return problem.objective.quantile, _asked(problem), d.key

    def certificate(self, d: Deployment) -> Certificate:
        """Certificate of a deployment, kept for searches that share their memory: of more pools, or by another
        goal."""
        problem, known = self.search.problem, self._certificates
        if (key := self._certificate_key(d)) not in known:
            decided = self.search.decisions(d.routing)
            shares = self.search.capacities.shares(problem, d, decided)
            known[key] = certify(self.simulator, d, decided, shares)
        simulator = known[key].simulator
        told = replace(simulator.problem, cluster=problem.cluster, objective=problem.objective)
        return replace(known[key], simulator=replace(simulator, problem=told))


def _asked(problem: Problem) -> tuple[tuple[Metric, float], ...]:
    return tuple((level.metric, level.quantile) for level in problem.objective.levels)


def before_certified(search: Search, d: Deployment) -> Certificate | None:
    """Certificate of a deployment in the state before its exits are certified; None where nothing is promised."""
    problem = search.problem.until_certified
    if problem is None:
        return None
    decided = decisions(problem, search.routings, d.routing)
    shares = search.capacities.shares(problem, d, decided)
    return certify(Simulator.of(problem), d, decided, shares)


def broken(found: Certificate) -> str:
    """Reason why a certified deployment does not hold or keep the objective's bounds; empty where it does both."""
    if found.why:
        return found.why
    return "" if found.held <= 1.0 else f"latency is {found.held:.3g} times the objective's bound"


def composer(search: Search, requests: int) -> Composer:
    """Composer on a window of so many requests; one for all searches that share their memory."""
    known: dict[int, Composer] = search.memory.setdefault("composers", {})
    if requests not in known:
        known[requests] = Composer.on(windowed(search.problem, requests))
    return known[requests]


def rank(problem: Problem, c: Candidate) -> tuple[float, ...]:
    """Key that candidates are ranked by: what the objective compares, then what breaks ties."""
    goal = problem.objective.goal
    if goal == "latency":
        return c.latency_s, c.usd_per_hour
    if goal == "cost":
        # Where nodes are paid for whole, the way to one node less goes by GPUs that idle.
        return c.usd_per_hour, c.deployment.in_use_usd, c.latency_s
    # Not by price: what is as good for less is looked for once the best quality is known
    # (`cheapest_as_good`).
    return -c.quality_lower, c.latency_s


def within_limits(problem: Problem, c: Candidate) -> bool:
    """Tells whether a candidate keeps the bar and the bounds, as far as its runs of the trace show."""
    bar = problem.objective.quality_min or 0.0
    return c.quality_lower >= bar and c.load <= PLAINLY_OVERLOADED and strain(problem, c) <= 1.0


def strain(problem: Problem, c: Candidate) -> float:
    """Largest ratio of what a candidate reaches to the objective's bound on it: as far as is known when the trace goes
    on, too.
    """
    held = (problem.asked or problem.objective).strain(c.held_s, c.held_levels_s)
    return max(problem.objective.strain(c.latency_s, c.levels_s), held)


def windowed(problem: Problem, requests: int) -> Problem:
    """The stretch of `requests` consecutive requests whose rate and work are nearest to the whole trace's."""
    w = problem.workload
    n = len(w)
    if n <= requests:
        return problem
    starts = np.linspace(0, n - requests, 24).astype(int)
    # Work is counted as the stage's loads order it (`tables/loads.py`): eight tokens read as one written.
    tokens = np.concatenate([[0], np.cumsum(w.output_tokens[-1] + w.input_tokens[-1] / 8)])
    spans = np.array([w.arrival_s[s + requests - 1] - w.arrival_s[s] for s in starts])
    work = np.array([tokens[s + requests] - tokens[s] for s in starts]) / np.maximum(spans, 1e-9)
    target = tokens[-1] / max(w.arrival_s[-1] - w.arrival_s[0], 1e-9)
    # By ratio: half the work is as far from the whole trace's as twice it.
    at = int(starts[np.abs(np.log(np.maximum(work, 1e-9) / target)).argmin()])
    part = slice(at, at + requests)
    return replace(
        problem,
        workload=Workload(
            w.arrival_s[part] - w.arrival_s[at],
            w.row[part],
            w.input_tokens[:, part],
            w.output_tokens[:, part],
            w.prefix_tokens[part],
            None if w.blocks is None else w.blocks.part(at, at + requests),
            drawn=None if w.drawn is None else w.drawn[:, part],
        ),
    )


@dataclass(frozen=True, slots=True)
class Ranked:
    """A deployment and what it promises, as a key: the smaller the better."""

    deployment: Deployment
    key: tuple[float, ...]


class Composed(NamedTuple):
    """Options per demand, combinations of them (m, D), and what each promises in seconds: of the objective's quantile
    (m) and of each of its levels (L, m)."""

    choices: list[list[Option]]
    grid: NDArray[np.int64]
    latency_s: Floats
    levels_s: Floats


def composed(
    state: Refinement, composer: Composer, routing: int, menu: dict[int, list[Option]], effort: Effort
) -> Composed:
    """All combinations of a routing's options, or as many as effort allows.

    Kept for all searches that share their memory: what is asked of a combination does not change what it promises.
    """
    search = state.search
    stages = list(menu)
    pools = {pool.name: pool.gpus for pool in search.problem.cluster.pools}
    offered = tuple(tuple((o.key, tuple(r.level for r in o.replicas)) for o in menu[s]) for s in stages)
    asked = _asked(search.problem)
    # By identity: composers are kept in the same memory, so that none is made anew at another's address.
    key = (id(composer), routing, offered, effort.combinations, effort.descents, tuple(pools.items()), asked)
    known: dict[object, Composed] = search.memory.setdefault("composed", {})
    if key in known:
        return known[key]
    each = max(2, int(effort.combinations ** (1 / len(stages))))
    choices = [thinned(menu[s], each) for s in stages]
    rows, fixed = composer.rows(search.routings, routing, stages, choices)
    grid, latency = best_combinations(rows, fixed, choices, pools, search.quantile)
    if effort.descents and np.isfinite(latency).any():
        start = [choices[d][o] for d, o in enumerate(grid[int(latency.argmin())].tolist())]
        choices = [menu[s] for s in stages]
        rows, fixed = composer.rows(search.routings, routing, stages, choices)
        at = [c.index(o) for c, o in zip(choices, start, strict=True)]
        grid, latency = descend(rows, fixed, choices, pools, search.quantile, at, effort.descents)
    reached = [
        promised(*composer.rows(search.routings, routing, stages, choices, metric), grid, quantile)
        for metric, quantile in asked
    ]
    known[key] = Composed(choices, grid, latency, np.reshape(reached, (len(asked), len(grid))))
    return known[key]


def combine(
    state: Refinement,
    composer: Composer,
    routing: int,
    effort: Effort,
    menu: dict[int, list[Option]] | None = None,
    within: float = 1.0,
) -> list[Ranked]:
    """Combinations of a routing's options (or of those in `menu`), by what their composed latencies promise.

    Those that promise more than `within` times the objective's bounds come last.
    """
    search, problem = state.search, state.search.problem
    menu = state.menu(routing) if menu is None else menu
    if not menu:
        return []
    stages = list(menu)
    choices, grid, latency, levels = composed(state, composer, routing, menu, effort)
    apis_usd = elsewhere.usd_per_hour(search, routing)
    in_use_usd = np.full(len(grid), apis_usd)
    for d, c in enumerate(choices):
        in_use_usd += np.array([o.usd_per_hour for o in c])[grid[:, d]]
    usd = in_use_usd + idle_usd(choices, grid)
    goal = problem.objective.goal
    keys = [latency, in_use_usd, usd] if goal == "cost" else [in_use_usd, usd, latency]
    late = _strains(problem, latency, levels) > within * NEARLY
    order = np.lexsort((*keys, late | ~np.isfinite(latency)))
    ranked: list[Ranked] = []
    for at in order.tolist():
        if not np.isfinite(latency[at]) or len(ranked) >= 40:
            break
        mixes = {s: choices[d][grid[at, d]].replicas for d, s in enumerate(stages)}
        candidate = deployment(routing, mixes)
        if candidate.fits(problem.cluster):
            lower = float(search.routings.lower[routing])
            expected = Candidate(candidate, float(latency[at]), lower, elsewhere_usd=apis_usd)
            ranked.append(Ranked(candidate, (float(late[at]), *rank(problem, expected))))
    return ranked


def _strains(problem: Problem, latency_s: Floats, levels_s: Floats) -> Floats:
    """Strain of each combination (m)."""
    objective = problem.objective
    each = [of_all / level.max_s for of_all, level in zip(levels_s, objective.levels, strict=True)]
    if objective.latency_max_s is not None:
        each.append(latency_s / objective.latency_max_s)
    return np.max(each, axis=0) if each else np.zeros(len(latency_s))

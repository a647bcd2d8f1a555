"""Refinement: the best plan by simulated end-to-end latency, not by the sum or maximum of stages.

1. Routings: the best by J of the bi-level loop, kept apart in load, and the best with each set of stages.
2. For each, combinations of stage options are ranked by their composed latency (`compose.py`).
3. The best combinations, and the deployments of the integer program, are simulated end to end.
4. From the best of these, steps to a neighbouring option of one stage, or of two in opposite directions, or to
   another routing, as long as one helps.

Everything is counted in simulated requests, never in seconds, so that a plan can be repeated.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.cluster import Cluster
from cascadia.domain.problem import Problem
from cascadia.domain.workload import Workload
from cascadia.planner.bilevel import BilevelResult, iterate_by_score
from cascadia.planner.compose import Composer, best_combinations, descend
from cascadia.planner.demand import JUDGE, Replicas
from cascadia.planner.deployment import Deployment, deployment
from cascadia.planner.exchange import exchanges
from cascadia.planner.options import Mix, Option, options, thinned
from cascadia.planner.references import References
from cascadia.planner.search import Search, allowed
from cascadia.planner.simulation import Simulator, quantile_s

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to simulate: routings looked at, combinations each, whole cascades (in requests, all told).

    `descents`: sweeps over all pairs of stages by which each routing's best combination is improved.
    """

    routings: int = 10
    combinations: int = 3000
    window_requests: int = 2500
    simulated_requests: int = 450_000
    fewest_simulations: int = 16
    descents: int = 0


EFFORT = Effort()
SEVERAL_POOLS = Effort(routings=6, combinations=6000, simulated_requests=1_500_000, descents=3)


def effort_for(cluster: Cluster) -> Effort:
    """Several pools have many more ways to be used, and users of them more patience."""
    return EFFORT if len(cluster.pools) == 1 else SEVERAL_POOLS


@dataclass(frozen=True, slots=True)
class Candidate:
    """A deployment with its simulated end-to-end quantile and what it promises."""

    deployment: Deployment
    latency_s: float
    quality_lower: float

    @property
    def usd_per_hour(self) -> float:
        return self.deployment.usd_per_hour


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
        stages = np.flatnonzero(search.routings.deployed[routing]).tolist()
        if search.self_hosted_judge and len(stages) > 1:
            stages.append(JUDGE)
        menu = {}
        for s in stages:
            demand, need = self.references.one(s, routing)
            part = search.problem.cluster.gpus // len(stages) if self.equal_parts else None
            menu[s] = options(demand, search.problem.cluster, need=need, most_gpus=part)
        return menu if all(menu.values()) else {}

    def simulate(self, deployments: Iterable[Deployment]) -> list[Candidate]:
        """Whole cascades, in parallel; each deployment once."""
        wanted = {d.key: d for d in deployments}
        fresh = [d for key, d in wanted.items() if key not in self.seen]
        for d, candidate in zip(fresh, self.search.threads.map(self._simulate, fresh), strict=True):
            self.seen[d.key] = candidate
        return [self.seen[key] for key in wanted]

    def _simulate(self, d: Deployment) -> Candidate:
        run = self.simulator.run(d, self.search.accepts(d.routing))
        latency = quantile_s(self.simulator.latency_s(run), self.search.quantile)
        return Candidate(d, latency, float(self.search.routings.lower[d.routing]))


def refine(
    search: Search,
    loop: BilevelResult,
    *,
    effort: Effort,
    progress: Callable[[str], None],
    equal_parts: bool = False,
) -> tuple[Candidate | None, list[Candidate]]:
    """The best candidate (None: no deployment keeps the bounds) and all that were simulated.

    `equal_parts`: no demand may take more than an equal part of the GPUs (a baseline).
    """
    problem = search.problem
    state = Refinement(search, Simulator.of(problem), loop.references, equal_parts)
    good = allowed(search)
    routings = [k for k in _spread(search, loop, effort.routings) if good[k]]
    composer = Composer.on(windowed(problem, effort.window_requests))
    ranked = list(search.threads.map(lambda k: _combine(state, composer, k, effort), routings))
    solved = [
        deployment(r.routing, dict(r.allocation.replicas))
        for r in loop.rounds
        if r.allocation is not None and good[r.routing] and not equal_parts
    ]
    # The paper's program counts GPUs, not what nodes hold.
    start = [d for d in solved if d.fits(problem.cluster)]
    simulations = max(effort.fewest_simulations, effort.simulated_requests // max(len(problem.workload), 1))
    state.simulate([*start, *_best_first(ranked, simulations // 2)])
    progress(f"refine: {len(state.seen)} cascades simulated")
    _climb(state, simulations, [k for k in routings if state.menu(k)])
    progress(f"refine: {len(state.seen)} cascades simulated")
    found = list(state.seen.values())
    within = [c for c in found if within_limits(problem, c)]
    return (min(within, key=lambda c: rank(problem, c)) if within else None), found


def rank(problem: Problem, c: Candidate) -> tuple[float, ...]:
    """What the objective compares, then what breaks ties."""
    goal = problem.objective.goal
    if goal == "latency":
        return c.latency_s, c.usd_per_hour
    if goal == "cost":
        return c.usd_per_hour, c.latency_s
    return -c.quality_lower, c.latency_s


def within_limits(problem: Problem, c: Candidate) -> bool:
    limit = problem.objective.latency_max_s
    return limit is None or c.latency_s <= limit


def windowed(problem: Problem, requests: int) -> Problem:
    """The stretch of `requests` consecutive requests whose rate and work are nearest to the whole trace's."""
    w = problem.workload
    n = len(w)
    if n <= requests:
        return problem
    starts = np.linspace(0, n - requests, 24).astype(int)
    tokens = np.concatenate([[0], np.cumsum(w.output_tokens[-1] + w.input_tokens[-1] / 8)])
    spans = np.array([w.arrival_s[s + requests - 1] - w.arrival_s[s] for s in starts])
    work = np.array([tokens[s + requests] - tokens[s] for s in starts]) / np.maximum(spans, 1e-9)
    target = tokens[-1] / max(w.arrival_s[-1] - w.arrival_s[0], 1e-9)
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
        ),
    )


def _spread(search: Search, loop: BilevelResult, most: int) -> list[int]:
    """Routings by J, best first, each apart from those before it; the best of each set of stages comes along."""
    routings = search.routings
    chosen: list[int] = []
    sets: set[bytes] = set()
    for k in iterate_by_score(loop, search.problem.objective, routings):
        deployed = routings.deployed[k].tobytes()
        room = len(chosen) < most
        if deployed in sets and not (room and _apart(routings.reached, k, chosen)):
            continue
        chosen.append(k)
        sets.add(deployed)
    return chosen


def _apart(reached: Floats, k: int, chosen: list[int]) -> bool:
    return bool((np.abs(reached[chosen] - reached[k]).max(axis=1) > 0.01).all())


@dataclass(frozen=True, slots=True)
class _Ranked:
    deployment: Deployment
    key: tuple[float, ...]


def _combine(state: Refinement, composer: Composer, routing: int, effort: Effort) -> list[_Ranked]:
    search, problem = state.search, state.search.problem
    menu = state.menu(routing)
    if not menu:
        return []
    stages = list(menu)
    each = max(2, int(effort.combinations ** (1 / len(stages))))
    choices = [thinned(menu[s], each) for s in stages]
    rows, fixed = composer.rows(search.routings, routing, stages, choices)
    pools = {pool.name: pool.gpus for pool in problem.cluster.pools}
    grid, latency = best_combinations(rows, fixed, choices, pools, search.quantile)
    if effort.descents and np.isfinite(latency).any():
        start = [choices[d][o] for d, o in enumerate(grid[int(latency.argmin())].tolist())]
        choices = [menu[s] for s in stages]
        rows, fixed = composer.rows(search.routings, routing, stages, choices)
        at = [c.index(o) for c, o in zip(choices, start, strict=True)]
        grid, latency = descend(rows, fixed, choices, pools, search.quantile, at, effort.descents)
    usd = np.zeros(len(grid))
    for d, c in enumerate(choices):
        usd += np.array([o.usd_per_hour for o in c])[grid[:, d]]
    goal, limit = problem.objective.goal, problem.objective.latency_max_s
    keys = [latency, usd] if goal == "latency" else [usd, latency]
    late = latency > (limit * 1.02 if limit is not None else np.inf)
    order = np.lexsort((keys[1], keys[0], late | ~np.isfinite(latency)))
    ranked: list[_Ranked] = []
    for at in order.tolist():
        if not np.isfinite(latency[at]) or len(ranked) >= 40:
            break
        mixes = {s: choices[d][grid[at, d]].replicas for d, s in enumerate(stages)}
        candidate = deployment(routing, mixes)
        if candidate.fits(problem.cluster):
            promised = Candidate(candidate, float(latency[at]), float(search.routings.lower[routing]))
            ranked.append(_Ranked(candidate, (float(late[at]), *rank(problem, promised))))
    return ranked


def combine(state: Refinement, composer: Composer, routing: int, effort: Effort) -> list[Deployment]:
    """Deployments of one routing by what they promise, best first."""
    return [r.deployment for r in _combine(state, composer, routing, effort)]


def _best_first(ranked: Sequence[Sequence[_Ranked]], most: int) -> list[Deployment]:
    """The best of every routing, then the best of all."""
    first = sorted((r[0] for r in ranked if r), key=lambda r: r.key)
    rest = sorted((x for r in ranked for x in r[1:]), key=lambda r: r.key)
    return [x.deployment for x in [*first, *rest][:most]]


def _climb(state: Refinement, simulations: int, routings: Sequence[int]) -> None:
    """Steps to better neighbours from the best candidates, until none helps or the budget is spent."""
    problem = state.search.problem

    def key(c: Candidate) -> tuple[float, ...]:
        return (float(not within_limits(problem, c)), *rank(problem, c))

    expanded: set[object] = set()
    while len(state.seen) < simulations:
        ordered = sorted(state.seen.values(), key=key)
        here = next((c for c in ordered[:3] if c.deployment.key not in expanded), None)
        if here is None:
            return
        expanded.add(here.deployment.key)
        room = simulations - len(state.seen)
        steps = [d for d in _neighbours(state, here.deployment, routings) if d.key not in state.seen]
        state.simulate(steps[:room])


def _neighbours(state: Refinement, here: Deployment, routings: Sequence[int]) -> list[Deployment]:
    """One stage one option up or down; one up and another down; the same mixes under nearby routings."""
    menu = state.menu(here.routing)
    mixes = dict(here.mixes)
    if not menu or set(menu) != set(mixes):
        return []
    up = {s: _step(menu[s], mixes[s], +1) for s in menu}
    down = {s: _step(menu[s], mixes[s], -1) for s in menu}
    changes: list[dict[int, Mix]] = [{s: mix} for s, mix in up.items() if mix]
    changes += [{s: mix} for s, mix in down.items() if mix and state.search.problem.objective.goal == "cost"]
    changes += [
        {a: more, b: less} for a, more in up.items() for b, less in down.items() if a != b and more and less
    ]
    if not state.equal_parts:
        changes += [{s: mix} for s in menu for mix in _with_more(state, here, s)]
        changes += [{s: mix} for s in menu for mix in _exchanged(state, here, s)]
    steps = [deployment(here.routing, mixes | change) for change in changes]
    reached = state.search.routings.reached
    near = sorted(
        (k for k in routings if k != here.routing and set(state.menu(k)) == set(mixes)),
        key=lambda k: float(np.abs(reached[k] - reached[here.routing]).sum()),
    )
    for k in near[:2]:
        steps += (
            [deployment(k, mixes)] if all(_sustains(state, k, s, mix) for s, mix in mixes.items()) else []
        )
    return [d for d in steps if d.fits(state.search.problem.cluster)]


def _step(choices: Sequence[Option], mix: Mix, by: int) -> Mix | None:
    """The option `by` places above the one of about `mix`'s cost."""
    usd = sum(r.shape.usd_per_hour * r.count for r in mix)
    at = int(np.searchsorted([o.usd_per_hour for o in choices], usd, side="left"))
    known = [o.replicas for o in choices]
    if mix in known:
        at = known.index(mix)
    elif by > 0:
        at -= 1
    return known[at + by] if 0 <= at + by < len(known) else None


def _with_more(state: Refinement, here: Deployment, stage: int) -> list[Mix]:
    """A stage's mix and replicas of any shape from GPUs that are spare: one of them, or all that fit.

    Their share is in proportion to what they sustain.
    """
    demand, _ = state.references.one(stage, here.routing)
    shapes, saturated = demand.table.shapes, demand.table.saturated.tolist()
    known = {id(shape): least for shape, least in zip(shapes, saturated, strict=True)}
    mix = here.mix(stage)
    if id(mix[0].shape) not in known:
        return []
    per_work = mix[0].level / max(known[id(mix[0].shape)], 1e-9)
    spare = {p.name: p.gpus - here.gpus_of(p.name) for p in state.search.problem.cluster.pools}
    return [
        (*mix, Replicas(shape, count, per_work * least))
        for shape, least in zip(shapes, saturated, strict=True)
        for count in sorted({1, spare[shape.pool] // shape.gpus})
        if least > 0 and 0 < count * shape.gpus <= spare[shape.pool]
    ]


def _exchanged(state: Refinement, here: Deployment, stage: int) -> Iterator[Mix]:
    """A stage's mix with other shapes on its GPUs and the spare ones."""
    demand, need = state.references.one(stage, here.routing)
    spare = {p.name: p.gpus - here.gpus_of(p.name) for p in state.search.problem.cluster.pools}
    return exchanges(here.mix(stage), demand.shapes, demand.table.saturated.tolist(), spare, need)


def _sustains(state: Refinement, routing: int, stage: int, mix: Mix) -> bool:
    """Does the mix keep up with what another routing sends to the stage?"""
    demand, need = state.references.one(stage, routing)
    saturated = {id(shape): least for shape, least in zip(demand.shapes, demand.table.saturated, strict=True)}
    return bool(sum(r.count / max(saturated.get(id(r.shape), np.inf), 1e-9) for r in mix) >= need)

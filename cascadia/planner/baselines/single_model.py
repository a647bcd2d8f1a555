"""Baselines on the same models, GPUs and traffic, each at its best setting (DESIGN section 5.7).

Every system sees the same requests, replica timings, quality bounds and simulator as Cascadia's own plan. They differ
in what they leave out:

stand-alone           one model for all requests, with its best mix of shapes
uniform parallelism   TP over a whole node, data parallelism across nodes (Cascadia figure 9)
uniform allocation    no stage gets more than an equal part of the GPUs (Cascadia figure 9)
no refinement         the integer program's own winner: largest stage quantile, never simulated end to end
no guarantee          the bar is held by the mean over the table instead of its lower bound
no judge cost         planned as if verdicts were free, then run with a judge beside it

CascadeServe is in `cascadeserve.py`, the pre-router (RouteLLM) in `prerouter.py`.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from cascadia.domain.problem import Judge, Problem
from cascadia.planner.allocation.demand import JUDGE, Replicas
from cascadia.planner.deployment.deployment import Deployment, deployment
from cascadia.planner.deployment.options import Mix
from cascadia.planner.refinement.refine import Candidate, Effort, Refinement
from cascadia.planner.refinement.supersets import searched as found_by
from cascadia.planner.search.bilevel import bilevel
from cascadia.planner.search.context import Search, Shapes, allowed, find_shapes, restricted
from cascadia.planner.search.reference_tables import References
from cascadia.planner.search.solver import solver
from cascadia.planner.search.throughput import max_rate_rps
from cascadia.planner.tables.tables import TableCache
from cascadia_sim.cascade.cascade import CascadeRun


@dataclass(frozen=True, slots=True)
class Entry:
    """One system: what it deploys, and how much it could sustain. `best` is None where it has no answer: `why`.

    Quality is of the routing used; `latency_s` of each request under the problem's own judge. `assumed`: what of it was
    not measured on the table, in words.
    """

    name: str
    best: Candidate | None
    run: CascadeRun | None
    _: KW_ONLY
    quality_mean: float
    quality_lower: float
    max_rate_rps: float
    why: str = ""
    assumed: str = ""


def stand_alone(search: Search, stage: int, effort: Effort, *, with_rate: bool = True) -> Entry:
    """All requests to one model."""
    deployed = search.routings.deployed
    alone = np.flatnonzero((deployed.sum(axis=1) == 1) & deployed[:, stage])
    only = restricted(search, search.routings.take(alone))
    found = searched(f"stand-alone {search.problem.stages[stage].name}", only, effort, with_rate=with_rate)
    if found.best is None:
        return found
    theirs = found.best.deployment
    ours = replace(theirs, routing=int(alone[theirs.routing]))
    return replace(found, best=replace(found.best, deployment=ours))


def uniform_parallelism(search: Search, effort: Effort) -> Entry:
    """Each stage's shapes are those that span its nodes: TP = GPUs of a node, as few pipeline stages as fit."""
    shapes = _over_nodes(search.problem)
    if not all(shapes.values()):
        return nothing("uniform parallelism", "a model does not split over a whole node")
    tables = TableCache(search.threads, sustained=search.tables.sustained)
    uniform = replace(search, shapes=shapes, shapes_of=_over_nodes, tables=tables)
    return searched("uniform parallelism", uniform, effort)


def _over_nodes(problem: Problem) -> Shapes:
    """Each stage's shapes whose TP spans a node, with as few pipeline stages as fit."""
    shapes = {}
    for s, choices in find_shapes(problem, needless_too=True).items():
        mine = [c for c in choices if c.tp == problem.cluster.pool(c.pool).gpus_per_node]
        least = {c.pool: min(x.pp for x in mine if x.pool == c.pool) for c in mine}
        shapes[s] = tuple(c for c in mine if c.pp == least[c.pool])
    return shapes


def uniform_allocation(search: Search, effort: Effort) -> Entry:
    """No demand gets more than an equal part of the GPUs; shapes and thresholds stay free."""
    return searched("uniform allocation", search, effort, equal_parts=True)


def no_refinement(search: Search) -> Entry:
    """The bi-level loop's winner by its own measure."""
    loop = bilevel(search, solver(search, "columns"), lambda _: None)
    good = allowed(search)
    rounds = [r for r in loop.rounds if r.allocation is not None and good[r.routing]]
    if not rounds:
        return nothing("no refinement", "no routing of the asked quality is sustained")
    best = min(rounds, key=lambda r: r.score)
    assert best.allocation is not None
    candidate = _simulated(search, best.routing, dict(best.allocation.replicas))
    return entry("no refinement", search, candidate, max_rate_rps(search, np.flatnonzero(good)))


def no_guarantee(search: Search, effort: Effort) -> Entry:
    """Quality by the point estimate, as others ship it."""
    trusting = restricted(search, replace(search.routings, lower=search.routings.mean))
    found = searched("no guarantee", trusting, effort)
    if found.best is None:
        return found
    return replace(found, quality_lower=float(search.routings.lower[found.best.deployment.routing]))


def no_judge_cost(search: Search, effort: Effort) -> Entry:
    """Plan as if the judge were free; then it gets as few of its smallest replicas as keep up, beside the plan."""
    name = "no judge cost"
    if not search.self_hosted_judge:
        return nothing(name, "the judge takes no GPU")
    free = Judge(kind=search.problem.judge.kind, placement="router")
    shapes = {s: v for s, v in search.shapes.items() if s != JUDGE}
    blind = replace(
        search,
        problem=replace(search.problem, judge=free),
        shapes=shapes,
        verdict_s=0.0,
        tables=TableCache(search.threads, sustained=search.tables.sustained),
        memory={},
    )
    found = searched(name, blind, effort)
    if found.best is None:
        return found
    routing = found.best.deployment.routing
    mixes: dict[int, Mix] = dict(found.best.deployment.mixes)
    judged = next((d for d in search.demands(routing) if d.stage == JUDGE), None)
    if judged is not None:
        smallest = min(range(len(judged.shapes)), key=lambda i: judged.shapes[i].usd_per_hour)
        count = max(1, int(np.ceil(judged.table.saturated[smallest])))
        mixes[JUDGE] = (Replicas(judged.shapes[smallest], count, count),)
    candidate = _simulated(search, routing, mixes)
    over = candidate.deployment.gpus - search.problem.cluster.gpus
    why = f"needs {over} more GPUs than there are" if over > 0 else ""
    return replace(entry(name, search, candidate, found.max_rate_rps), why=why)


def searched(
    name: str,
    search: Search,
    effort: Effort,
    *,
    equal_parts: bool = False,
    with_rate: bool = True,
    starts: Sequence[Deployment] = (),
) -> Entry:
    """The system that uses Cascadia's own search on what `search` leaves it; `with_rate`: also the largest rate.

    `starts`: deployments of others that are looked at too.
    """
    good = allowed(search)
    if not good.any():
        return nothing(name, f"misses the bar: {float(search.routings.lower.max(initial=0.0)):.1f} at most")
    best = found_by(
        search, lambda part: solver(part, "columns"), effort, lambda _: None, starts, equal_parts=equal_parts
    ).best
    rate = max_rate_rps(search, np.flatnonzero(good), equal_parts=equal_parts) if with_rate else 0.0
    if best is None:
        return replace(nothing(name, "the traffic is not sustained"), max_rate_rps=rate)
    return entry(name, search, best, rate)


def entry(name: str, search: Search, best: Candidate, rate: float) -> Entry:
    """Entry with the whole run, for curves; nothing where the deployment does not carry the traffic as long as
    it goes on.
    """
    routing = best.deployment.routing
    if best.certificate is None:
        best = Refinement(search, search.simulator, References(search)).certified(best)
    assert best.certificate is not None
    if not best.certificate.holds:
        return replace(nothing(name, f"not carried: {best.certificate.why}"), max_rate_rps=rate)
    mean, lower = float(search.routings.mean[routing]), float(search.routings.lower[routing])
    # What holds at today's rate carries that, also where another deployment was thought to be best for throughput.
    most = max(rate, search.problem.workload.rate_rps) if rate > 0 else 0.0
    return Entry(name, best, best.certificate.run, quality_mean=mean, quality_lower=lower, max_rate_rps=most)


def nothing(name: str, why: str) -> Entry:
    return Entry(
        name, None, None, quality_mean=float("nan"), quality_lower=float("nan"), max_rate_rps=0.0, why=why
    )


def _simulated(search: Search, routing: int, mixes: dict[int, Mix]) -> Candidate:
    state = Refinement(search, search.simulator, References(search))
    return state.simulate([deployment(routing, mixes)])[0]

"""Planning, from a problem to a plan. `plan` reads as DESIGN section 5 and Cascadia's algorithm 1 do."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.deadline import Deadline
from cascadia.domain.errors import Infeasible, OutOfTime
from cascadia.domain.gear import Ladder
from cascadia.domain.plan import Mixture, Plan, Proof, QualityPrediction
from cascadia.domain.problem import Problem
from cascadia.planner.account.assemble import assemble, predict
from cascadia.planner.account.break_even import break_even_notes
from cascadia.planner.account.calibration_notes import calibration_notes
from cascadia.planner.account.calibrations import calibrations_of
from cascadia.planner.account.error_range import error_range
from cascadia.planner.account.exits import with_exits_written
from cascadia.planner.account.few_requests import few_requests_notes, short_trace_notes
from cascadia.planner.account.losses import node_losses
from cascadia.planner.account.question_range import played_by, question_notes, question_range
from cascadia.planner.account.scaling import ROOM, scaling
from cascadia.planner.account.server_notes import server_notes
from cascadia.planner.account.until_certified import first_state_note, on_same_replicas, until_certified
from cascadia.planner.allocation.demand import Allocation
from cascadia.planner.baselines.aside import Aside
from cascadia.planner.baselines.rivals import THEIRS, their_deployments
from cascadia.planner.beside.forked import can_fork
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.measures import stage_latencies_s
from cascadia.planner.deployment.simulation import Simulator, quantile_s
from cascadia.planner.gears.ladder import FoundLadder, Goals, find_ladder
from cascadia.planner.gears.notes import gear_notes
from cascadia.planner.gears.placement import (
    Placed,
    as_good_on_gears,
    better_than_mixed,
    cheaper_on_gears,
    keeps_levels,
)
from cascadia.planner.gears.written import gears as written_gears
from cascadia.planner.gears.written import mixed_quality
from cascadia.planner.infeasible import explain
from cascadia.planner.infeasible.nearest import Planning
from cascadia.planner.infeasible.out_of_time import left_out_note, none_in_time, out_of_time
from cascadia.planner.pool.affordable import affordable, within_budget
from cascadia.planner.pool.kairos_pick import on_picked
from cascadia.planner.pool.largest_rate import (
    LARGER,
    at_factor,
    carried_on,
    check_bounded,
    for_a_rate,
    largest_factor,
)
from cascadia.planner.pool.rate_bound import rate_bound_rps
from cascadia.planner.pool.spot import best_way, on_demand_notes
from cascadia.planner.pool.worth import dominance_note
from cascadia.planner.refinement.batch_tokens import with_fewest
from cascadia.planner.refinement.best import Known, Ways, best_found, fastest, least_held
from cascadia.planner.refinement.carried_on import numbered_alike
from cascadia.planner.refinement.drafts import without_drafts
from cascadia.planner.refinement.mixed_search import least_quality, where_none
from cascadia.planner.refinement.nearly_full import carried, fullest, nearly_full
from cascadia.planner.refinement.refine import Candidate, Effort, effort_for, refine
from cascadia.planner.refinement.supersets import Found, best_of_parts, parts
from cascadia.planner.refinement.thrift import LOOSER, TIGHTER, fastest_for_as_much, on_the_slope
from cascadia.planner.routing.dominance import non_dominated
from cascadia.planner.routing.frontier import all_routings, undominated
from cascadia.planner.routing.guarantee import with_bounds
from cascadia.planner.routing.points import Setting
from cascadia.planner.routing.preroutings import by_question_alone
from cascadia.planner.routing.routings import Routings, joined, mean_score, thin
from cascadia.planner.search.bilevel import BilevelResult, bilevel
from cascadia.planner.search.context import Search, on_pools, start_search
from cascadia.planner.search.exit_settings import exit_settings
from cascadia.planner.search.solver import Formulation, solver
from cascadia.planner.stability.headroom import headroom
from cascadia.planner.stability.other_questions import visits_of
from cascadia.planner.stability.repeats import at_rate
from cascadia_sim.cascade.cascade import CascadeRun
from cascadia_sim.cascade.compiling import compile_kernels
from cascadia_sim.hardware.cores import usable_cores
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.timing import PS_PER_S

MAX_ROUTINGS = 2000
"""Routings kept of the frontier, spread over loads and independent of the bar."""

SEARCHED, UNDRAFTED, WITHOUT_EXITS, OTHERS = 0.7, 0.4, 0.5, 0.1
"""Shares of the time that is left for the search, of that for what has no speculation, for what has no exits, and for
what others would deploy."""
OTHERS_BESIDE = 0.4
"""The same share where another process looks for them: there the search goes on meanwhile."""

NO_CLIMB = {"simulated_requests": 0, "fewest_simulations": 2}
"""Of a refinement's effort: enough to simulate one combination."""


@dataclass(frozen=True, eq=False)
class PlanResult:
    """The plan, what to tell the user beside it, and the search behind it for the report.

    `fastest`: the best candidate by the goal alone; `chosen` may be slower by the objective's `within`, or, where
    quality is sought, as far as its bounds allow. `run` is on the `ladder`, where there is one; `alone` is then that of
    the plan's own setting. `setting` of exits, where the plan has any; the search is then of the stages as it leaves
    them. `aside`: what the report shows beside the plan, where other processes look for it.
    """

    plan: Plan
    notes: tuple[str, ...]
    search: Search
    _: KW_ONLY
    loop: BilevelResult
    chosen: Candidate
    fastest: Candidate
    candidates: tuple[Candidate, ...]
    run: CascadeRun
    simulator: Simulator
    ladder: FoundLadder | None = None
    alone: CascadeRun | None = None
    setting: Setting | None = None
    aside: Aside | None = None

    @property
    def fastest_s(self) -> float:
        return self.fastest.latency_s


def plan(
    problem: Problem,
    *,
    formulation: Formulation = "columns",
    effort: Effort | None = None,
    progress: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    deadline: Deadline | None = None,
    processes: bool = False,
    room: float = ROOM,
) -> PlanResult:
    """The plan for `problem`; at the `deadline` (None: none) the best found by then, with notes on what was left out.

    `processes`: with more than one core, other processes search for what waits for nothing else, the report's part
    included. They are forked: only for a process of our own. `room`: share (0-1) of each bound on latency that replicas
    at other rates leave free.

    Raises `Infeasible` where a stage needs more GPUs than there are, or no plan keeps the objective's bounds,
    `BadInput` for a stage that no number of them holds, and `OutOfTime` where no plan was found by the deadline.
    """
    deadline, started = deadline or Deadline(), clock()
    if any(stage.external is None for stage in problem.stages):
        # Before any part of the search is given its share of the time.
        compile_kernels()

    def elapsed() -> float:
        return clock() - started

    def make(cluster: Cluster, part: Deadline) -> PlanResult:
        at_once = processes and can_fork()
        return _plan(
            replace(problem, cluster=cluster), formulation, effort, progress, elapsed, part, at_once=at_once
        )

    result = best_way(problem.cluster, problem.objective, deadline, make)
    # Of other goals none is let go at lower rates; that of the largest rate searches for the least cost at each.
    if result.plan.objective.goal == "cost" and not deadline.leaves_out("how many replicas other rates need"):
        result = _with_scaling(result, room)
    notes = (*result.notes, *on_demand_notes(problem.cluster, result.plan.cluster), *left_out_note(deadline))
    return replace(result, notes=notes)


def _plan(
    problem: Problem,
    formulation: Formulation,
    effort: Effort | None,
    progress: Callable[[str], None],
    elapsed: Callable[[], float],
    deadline: Deadline,
    known: Known | None = None,
    *,
    at_once: bool = False,
) -> PlanResult:
    """`known`: a deployment for this rate, or for another, that is looked at too."""
    problem = _rented(problem, formulation)
    if problem.objective.goal == "rate":
        again = partial(
            _plan,
            formulation="columns" if formulation == "kairos" else formulation,
            effort=effort,
            progress=progress,
            elapsed=elapsed,
            deadline=deadline,
        )
        planning = asking(formulation, effort, progress)
        found = _at_largest_rate(problem, again, planning, deadline, elapsed)
        told = replace(found.plan, proof=replace(found.plan.proof, formulation=formulation))
        return replace(found, plan=told)

    def make(
        problem: Problem,
        routings: Routings,
        method: str,
        deadline: Deadline,
        *,
        also: PlanResult | None = None,
        known: Known | None = None,
    ) -> PlanResult:
        return _planned(
            problem,
            routings,
            method,
            also=also,
            known=known,
            formulation=formulation,
            effort=effort,
            progress=progress,
            elapsed=elapsed,
            deadline=deadline,
            at_once=at_once and problem.points is None,
        )

    routings, method = routings_of(problem)
    routings = within_budget(problem, routings)
    if problem.points is None:
        return make(problem, routings, method, deadline, known=known)
    return _with_exits(problem, routings, partial(make, method=method), deadline, progress, known)


def _planned(
    problem: Problem,
    routings: Routings,
    method: str,
    *,
    also: PlanResult | None = None,
    known: Known | None = None,
    formulation: Formulation,
    effort: Effort | None,
    progress: Callable[[str], None],
    elapsed: Callable[[], float],
    deadline: Deadline,
    at_once: bool = False,
) -> PlanResult:
    """Plan by one of `routings`. `also`: a plan without exits, whose replicas are looked at too. `known`: a deployment
    that is looked at too, and again where nothing else is found. `at_once`: in several processes.
    """
    # The result keeps the search, and with it the threads: they end when it is no longer held.
    threads = ThreadPoolExecutor(usable_cores())
    search = start_search(problem, routings, threads, deadline.part(SEARCHED))

    planning = asking(formulation, effort, progress)
    if (why := explain.quality_out_of_reach(search, planning)) is not None:
        raise why
    progress("what others would deploy")
    aside = Aside(search, search.deadline.apart(OTHERS_BESIDE), deadline) if at_once else None

    def starts_of(part: Search) -> Sequence[Deployment]:
        return aside.starts if aside is not None and part is search else _theirs(part)

    ways = Ways(lambda part: solver(part, formulation), effort, progress, starts_of)
    starts: list[Deployment] = []
    if also is not None:
        starts += on_same_replicas(search, also.search, also.chosen.deployment)
    # What is best without drafts is where the search with them starts: drafting must not lose a plan.
    if (plain := without_drafts(search)) is not None:
        progress("without speculation")
        plain = replace(plain, deadline=search.deadline.part(UNDRAFTED))
        undrafted = best_of_parts(plain, ways.solver_of, effort, progress, _theirs(plain))
        starts += [undrafted.best.deployment] if undrafted.best is not None else []
        progress("with speculation")
    if known is not None and numbered_alike(routings, *known):
        starts += [known[0]]
    found = best_found(search, ways, also=starts, known=known)
    if found.best is None:
        if aside is not None:
            aside.close()
        search = replace(search, deadline=deadline)
        raise none_in_time(search, lambda: explain.why_none(search, found.loop, found.candidates, planning))
    found, cheaper = _with_cheaper(found)
    changed, search, best = found.search is not search, found.search, found.best
    assert best is not None
    chosen = cheaper[0] if cheaper else best
    as_good = cheaper if problem.objective.goal == "quality" else ()
    search = replace(search, deadline=deadline)
    placed = cheaper_on_gears(search, found.candidates, chosen, progress)
    if as_good:
        placed = as_good_on_gears(search, best, as_good, progress)
    if placed is None and (placed := better_than_mixed(search, chosen, found.candidates, progress)):
        found, as_good = replace(found, best=placed.candidate), ()
    chosen = chosen if placed is None else placed.candidate
    if aside is not None:
        aside.look_around(search, found.loop, chosen, anew=changed)
    result = _finish(
        search,
        found,
        chosen,
        formulation=formulation,
        method=method,
        elapsed=elapsed,
    )
    result = _with_gears(replace(result, aside=aside), placed, progress, elapsed)
    if not deadline.leaves_out("what other questions do to the plan"):
        result = _with_other_questions(result)
    if as_good and result.chosen.usd_per_hour > as_good[0].usd_per_hour:
        result = replace(result, notes=(*result.notes, _worth_it(result, as_good[0])))
    if not deadline.leaves_out("what the loss of a node leaves"):
        own = (result.chosen.deployment.routing,) if result.ladder is None else result.ladder.routings
        losses = node_losses(result.search, result.chosen.deployment, own)
        result = replace(result, plan=replace(result.plan, losses=losses))
    return replace(result, notes=(*result.notes, *question_notes(result.plan)))


def _with_other_questions(result: PlanResult) -> PlanResult:
    """Plan with what other questions like its table's do to its latency, on its gears if it has any."""
    routings, plan_, found = result.search.routings, result.plan, result.ladder
    gears: Sequence[int] = (result.chosen.deployment.routing,)
    shares, ladder = np.ones(1), Ladder(())
    if found is not None:
        gears, shares, ladder = found.routings, found.played.gear_shares(len(found.routings)), found.ladder
    parts = list(zip(shares.tolist(), gears, strict=True))
    within = question_range(
        result.simulator,
        result.chosen.deployment,
        played_by(result.chosen.deployment, routings, gears, ladder),
        plan_.predicted,
        visits_of(result.search.problem, routings, parts),
        carries=plan_.headroom or 1.0,
    )
    return replace(result, plan=replace(plan_, question_range=within))


def _with_scaling(result: PlanResult, room: float) -> PlanResult:
    """Plan with the replicas that it needs at other rates, on its gears if it has any."""
    found = result.ladder
    scales = scaling(
        result.simulator,
        result.chosen.deployment,
        result.search.routings,
        (result.chosen.deployment.routing,) if found is None else found.routings,
        Ladder(()) if found is None else found.ladder,
        predicted=result.plan.predicted,
        room=room,
    )
    return replace(result, plan=replace(result.plan, scaling=scales))


def _with_cheaper(found: Found) -> tuple[Found, tuple[Candidate, ...]]:
    """`found` with what is cheaper and slower, or dearer and faster, and what may be taken instead of its best, by
    rising cost.
    """
    objective, thrift = found.search.problem.objective, found.thrift
    if objective.goal == "cost":
        assert found.best is not None
        best, candidates = fastest_for_as_much(found.search, found.loop, found.best, found.candidates)
        found = replace(found, best=best)
        return _with_slope(found, best, candidates, [t * best.latency_s for t in TIGHTER]), ()
    if thrift is None or not (objective.goal == "quality" or objective.within > 0):
        return found, ()
    limits_s = [t * thrift.best.latency_s for t in LOOSER] if objective.goal == "latency" else []
    found = _with_slope(found, thrift.chosen, thrift.candidates, limits_s)
    return found, (thrift.chosen, *thrift.dearer) if thrift.chosen is not thrift.best else ()


def _with_slope(
    found: Found, chosen: Candidate, candidates: Sequence[Candidate], limits_s: Sequence[float]
) -> Found:
    """`found` with these candidates, and the cheapest of the chosen's routing under other limits on latency."""
    known = {c.deployment.key: c for c in candidates}
    if limits_s and not found.search.deadline.passed:
        on_it = on_the_slope(found.search, found.loop, chosen.deployment.routing, limits_s)
        known = {c.deployment.key: c for c in on_it} | known
    return replace(found, candidates=tuple(known.values()))


def _theirs(search: Search) -> list[Deployment]:
    """Deployments of others, for which a part of the time is spent."""
    apart = search.deadline.apart(OTHERS)
    found = their_deployments(replace(search, deadline=apart))
    search.deadline.has_left_out(apart.in_part(THEIRS))
    return found


def _with_exits(
    problem: Problem,
    routings: Routings,
    make: Callable[..., PlanResult],
    deadline: Deadline,
    progress: Callable[[str], None],
    known: Known | None = None,
) -> PlanResult:
    """The plan without exits, or where one with exits is better, that: nobody is worse off for there being exits.

    `routings` are those without; `make` plans by a problem and routings, until a deadline. Where exits are certified
    first, a plan with exits holds before as well; one that does not is only given where there is no other, and says so.
    """
    plain = replace(problem, points=None)
    best, refused = _or_refused(
        partial(make, plain, routings, deadline=deadline.part(WITHOUT_EXITS), known=known)
    )
    without = best if problem.exits is not None else None
    objective = problem.objective
    least = least_quality(objective, best.plan.predicted.quality.lower if best else 0.0)
    with ThreadPoolExecutor(usable_cores()) as threads:
        loads = start_search(problem, routings, threads)
        sets = list(exit_settings(loads, least))
    for at, one in enumerate(sets):
        if deadline.leaves_out("some of the exits"):
            break
        progress("exits")
        until = deadline.part(1 / (len(sets) - at))
        found, _ = _or_refused(partial(make, one.problem, one.routings, deadline=until, also=without))
        if found is None or (best is not None and _rank(problem, found) >= _rank(problem, best)):
            continue
        # Gears may have chosen other replicas than were found to hold before.
        if not _why_not_before(problem, found):
            best = replace(found, setting=one.setting)
    for one in sets if best is None and problem.exits is not None else ():
        held = replace(one.problem, uncertified=None)
        found, _ = _or_refused(partial(make, held, one.routings, deadline=deadline))
        if found is not None:
            told = replace(found.search.problem, uncertified=one.problem.uncertified)
            best = replace(found, setting=one.setting, search=replace(found.search, problem=told))
            break
    if best is None:
        assert refused is not None
        raise refused
    if best.setting is None and deadline.left_out:
        return best
    if best.setting is None:
        note = (
            "no exit was worth it: the plan without is as good" if sets else "no exits reach the bar for less"
        )
        return replace(best, notes=(*best.notes, note))
    plan_ = with_exits_written(problem, best.plan, best.setting)
    if problem.exits is None:
        return replace(best, plan=plan_)
    before = until_certified(best.search, best.chosen.deployment, problem.exits)
    plan_ = replace(plan_, exits=problem.exits, until_certified=before)
    return replace(best, plan=plan_, notes=(*best.notes, first_state_note(plan_)))


def _why_not_before(problem: Problem, found: PlanResult) -> str:
    """Reason why a plan does not hold before its exits are certified; empty where nothing is promised of them."""
    if problem.exits is None:
        return ""
    return until_certified(found.search, found.chosen.deployment, problem.exits).why


def _or_refused(make: Callable[[], PlanResult]) -> tuple[PlanResult | None, Infeasible | OutOfTime | None]:
    try:
        return make(), None
    except (Infeasible, OutOfTime) as why:
        return None, why


def _rank(problem: Problem, result: PlanResult) -> tuple[float, ...]:
    """Key that finished plans are ranked by, gears included."""
    predicted, goal = result.plan.predicted, problem.objective.goal
    if goal == "latency":
        return result.fastest.latency_s, predicted.usd_per_hour
    if goal == "cost":
        return predicted.usd_per_hour, predicted.objective_s
    return -predicted.quality.lower, predicted.usd_per_hour, predicted.objective_s


def _at_largest_rate(
    problem: Problem,
    make: Callable[..., PlanResult],
    planning: Planning,
    deadline: Deadline,
    elapsed: Callable[[], float],
) -> PlanResult:
    """The plan at the largest rate that there is one for, told as one for `problem`."""
    with open_search(problem, deadline.part(SEARCHED)) as search:
        known: dict[float, Known] = {}

        def keeps(part: Search, factor: float) -> bool:
            faster = at_rate(part.problem, factor)
            kept = planning.kept(start_search(faster, search.routings, search.threads, part.deadline))
            if kept is not None:
                known[factor] = kept
            elif part.deadline.leaves_out(LARGER):
                # A search that was cut short has not found out that there is none.
                raise out_of_time()
            return kept is not None

        def carries(part: Search, d: Deployment) -> float:
            factor = carried_within(part, d)
            known[factor] = d, search.routings
            return factor

        each = (on_pools(search, pools) for pools in parts(problem.cluster))
        try:
            factor = largest_factor(
                [part for part in each if part is not None], keeps, planning.progress, carries
            )
        except OutOfTime:
            search.deadline.leaves_out(LARGER)
            factor = max(known, default=0.0)
        # What keeps the bounds at a rate is the plan there, if its own search has no time or luck to find a better one.
        result = at_factor(search, factor, partial(make, known=known.get(factor)))

        def faster(was: PlanResult, times: float) -> PlanResult:
            factor = times * was.plan.predicted.rate_rps / problem.workload.rate_rps
            return make(at_rate(search.problem, factor), known=(was.chosen.deployment, was.search.routings))

        def carried(was: PlanResult) -> float:
            return carried_within(was.search, was.chosen.deployment, at_least=1.0)

        result = carried_on(result, carried, faster)
    check_bounded(problem, result.plan)
    plan_ = replace(result.plan, objective=problem.objective, wall_s=elapsed())
    return replace(result, plan=plan_, notes=(*result.notes, _as_fast(problem, plan_)))


def carried_within(search: Search, d: Deployment, *, at_least: float = 0.0) -> float:
    """Headroom of a deployment's own setting within all bounds; below 1 where it does not keep them as it is."""
    decided = search.decisions(d.routing)
    shares = search.capacities.shares(search.problem, d, decided)
    return headroom(
        search.simulator, d, decided, shares, at_least=at_least, bounded=True, deadline=search.deadline
    )


def _as_fast(problem: Problem, plan_: Plan) -> str:
    """The factor at which the trace was played."""
    rate, bound = plan_.predicted.rate_rps, plan_.proof.rate_bound_rps
    most = f"; by these thresholds nothing within the pools and budget carries {bound:.3g}" if bound else ""
    times = rate / problem.workload.rate_rps
    kept = " within the bounds on latency" if problem.objective.bounds else ""
    return f"{rate:.3g} requests/s, {times:.3g} times the trace's rate, is the largest found{kept}{most}"


@contextmanager
def open_search(problem: Problem, deadline: Deadline | None = None) -> Iterator[Search]:
    """A search of `problem` for callers that go their own way through it (`compare`).

    The goal `rate` stands for the cheapest plan of the rate at hand there.
    """
    problem = for_a_rate(problem) if problem.objective.goal == "rate" else problem
    with ThreadPoolExecutor(usable_cores()) as threads:
        routings = within_budget(problem, routings_of(problem)[0])
        search = start_search(problem, routings, threads, deadline)
        if (why := explain.quality_out_of_reach(search, asking())) is not None:
            raise why
        yield search


def routings_of(problem: Problem) -> tuple[Routings, str]:
    """Routings that none beats in quality and load, with bounds that survive choosing among them; their method.

    Where all routings are few, their bounds decide what is beaten, as they decide what reaches the bar; else means do.
    Routings by the question alone ask no judge, which loads do not tell: they are beaten by their like only.
    """
    if problem.quality.foreseen is None:
        return _cascades_of(problem)
    alone = by_question_alone(problem.quality)
    bounded, method = with_bounds(problem.quality, alone, problem.confidence, problem.seed)
    return joined([_cascades_of(problem)[0], bounded]), method


def _cascades_of(problem: Problem) -> tuple[Routings, str]:
    table, confidence, seed = problem.quality, problem.confidence, problem.seed
    every = all_routings(table, keep_worse=False)
    if len(every) > MAX_ROUTINGS:
        return with_bounds(table, thin(undominated(every), MAX_ROUTINGS), confidence, seed)
    bounded, method = with_bounds(table, every, confidence, seed)
    # Of equals the filter keeps the first: the one with fewer stages. In whole numbers, so that ties are
    # ties.
    order = np.argsort(bounded.deployed.sum(axis=1), kind="stable")
    kept = non_dominated(bounded.reached[order], np.rint(bounded.lower[order] * 1e9).astype(np.int64))
    return bounded.take(order[kept]), method


def _rented(problem: Problem, formulation: Formulation) -> Problem:
    """`problem` on what its budget could rent, or on what Kairos would rent of that."""
    held = affordable(problem)
    return on_picked(held) if formulation == "kairos" else held


def asking(
    formulation: Formulation = "columns",
    effort: Effort | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Planning:
    """Question whether there would be a plan, answered by the steps that planning takes. Raises `OutOfTime` where the
    search's deadline leaves no answer."""

    def sustains(search: Search) -> bool:
        """A deployment that carries as much as any settles it, mostly; else one from the loop or a combination."""
        unbounded = replace(search.problem.objective, latency_max_s=None, levels=())
        search = replace(search, problem=replace(search.problem, objective=unbounded))
        few = replace(effort or effort_for(search.problem.cluster), **NO_CLIMB)
        return any(sustained(budgeted, few) for budgeted in with_budgets(search)) or mixed(search) is not None

    def sustained(search: Search, effort: Effort) -> bool:
        full = nearly_full(search)
        starts = list(fullest(full))
        return bool(starts) and (carried(full, starts) or tried(search, effort) is not None)

    def kept(search: Search) -> Known | None:
        thorough = effort or effort_for(search.problem.cluster)
        each = (tried(budgeted, thorough) for budgeted in with_budgets(search))
        return next((known for known in each if known is not None), None) or mixed(search)

    def tried(search: Search, effort: Effort) -> Known | None:
        if (known := found(search, effort)) is not None:
            return known
        full = nearly_full(search)
        starts = list(fullest(full))
        return found(full, effort, starts) if starts else None

    def mixed(search: Search) -> Known | None:
        if search.problem.quality.left is not None:
            return None
        none = Found(None, (), search, bilevel(search, solver(search, formulation), lambda _: None))
        one = where_none(none, ways.solver_of, effort, ways.progress)
        return None if one.best is None else (one.best.deployment, one.search.routings)

    def found(search: Search, effort: Effort, starts: Sequence[Deployment] = ()) -> Known | None:
        if search.deadline.passed:
            raise out_of_time()
        loop = bilevel(search, solver(search, formulation), lambda _: None)
        best, _ = refine(
            search, loop, effort=effort, progress=lambda _: None, starts=starts, any_will_do=True
        )
        return None if best is None else (best.deployment, search.routings)

    def with_budgets(search: Search) -> Iterator[Search]:
        yield search
        if (fewest := with_fewest(search)) is not None:
            yield fewest

    def fastest_s(search: Search, met: Sequence[Candidate]) -> float | None:
        if search.deadline.passed:
            raise out_of_time()
        best = least_held(fastest(search, ways), met)
        return None if best is None else best.held_s

    ways = Ways(lambda part: solver(part, formulation), effort, lambda _: None, _theirs)
    return Planning(sustains, kept, fastest_s, progress, partial(_rented, formulation=formulation))


def _mixture(routings: Routings, k: int) -> Mixture | None:
    mixed = routings.mixed
    if mixed is None or mixed.share[k] <= 0 or mixed.other.skip_below is None:
        return None
    thresholds, skips = mixed.other.thresholds[k].tolist(), mixed.other.skip_below[k].tolist()
    return Mixture(float(mixed.share[k]), tuple(thresholds), tuple(skips))


def _finish(
    search: Search,
    found: Found,
    best: Candidate,
    *,
    formulation: Formulation,
    method: str,
    elapsed: Callable[[], float],
) -> PlanResult:
    problem, routing = search.problem, best.deployment.routing
    prove, demands = solver(search, formulation, prove=True), search.demands(routing)
    proving = search.threads.submit(lambda: prove(demands) if demands else Allocation({}, 0.0, 0.0))
    assert best.certificate is not None
    # Of a trace that is over before anything has settled, figures are of so many rounds of it as it takes.
    certificate = best.certificate
    # A cheaper plan was searched for under bounds of its own; what is told is of the objective as it was asked.
    as_asked = replace(certificate.problem, objective=problem.objective)
    simulator, run = replace(certificate.simulator, problem=as_asked), certificate.run
    shares = search.capacities.shares(problem, best.deployment, search.decisions(routing))
    carries: float | None = None
    if not search.deadline.leaves_out("how much more traffic the plan carries"):
        carries = headroom(
            search.simulator,
            best.deployment,
            search.decisions(routing),
            shares,
            at_least=1.0,
            deadline=search.deadline,
            threads=search.threads if can_fork() else None,
        )
        # Cut short before anything was found, it has not shown that there is no more.
        carries = None if carries <= 1.0 and search.deadline.passed else carries
    proof = _proof(proving.result(), formulation, _slowest_stage_s(run, problem), len(found.candidates))
    proof = replace(proof, rate_bound_rps=rate_bound_rps(search, routing))
    quality = QualityPrediction(
        mean=float(search.routings.mean[routing]),
        lower=float(search.routings.lower[routing]),
        confidence=problem.confidence,
        method=method,
        questions=len(problem.quality),
        score=mean_score(problem.quality, search.routings, routing),
    )
    predicted = predict(
        simulator.problem,
        run,
        simulator.arrivals,
        usd_per_hour=best.deployment.usd_per_hour,
        stage_bound_s=proof.objective_s,
        quality=quality,
        shares=shares,
        rate_rps=problem.workload.rate_rps,
    )
    thresholds, skips = search.routings.thresholds[routing].tolist(), search.routings.skip_below
    mixture = _mixture(search.routings, routing)
    told = problem.quality.foreseen is not None or mixture is not None
    skip_below = skips[routing].tolist() if skips is not None and told else ()
    calibrations = calibrations_of(simulator.problem, best.deployment, run)
    within = None
    if not search.deadline.leaves_out("what the error of its calibrations does to the plan"):
        within = error_range(
            problem,
            simulator,
            best.deployment,
            certificate.decided,
            predicted.objective_s,
            carries=carries or 1.0,
        )
    plan_ = assemble(
        problem,
        best.deployment,
        thresholds,
        predicted=predicted,
        proof=proof,
        wall_s=elapsed(),
        skip_below=skip_below,
        mixture=mixture,
    )
    plan_ = replace(
        plan_,
        calibrations=calibrations,
        error_range=within,
        stability=certificate.stability,
        headroom=carries,
    )
    notes = (
        *problem.notes,
        *_notes(problem, plan_),
        *few_requests_notes(
            plan_, search.routings.reached[routing], len(problem.workload), len(problem.quality)
        ),
        *server_notes(plan_, problem.workload),
        *break_even_notes(search),
        *dominance_note(search, routing),
        *_spared(problem, best, found.best or best),
    )
    return PlanResult(
        plan_,
        notes,
        search,
        loop=found.loop,
        chosen=best,
        fastest=found.best or best,
        candidates=found.candidates,
        run=run,
        simulator=simulator,
    )


def _with_gears(
    result: PlanResult,
    placed: Placed | None,
    progress: Callable[[str], None],
    elapsed: Callable[[], float],
) -> PlanResult:
    """Plan on a ladder of gears, if more than one is asked for and there is a better one than its own setting.

    `placed`: the ladder that its replicas were chosen for, where they were.
    """
    search, alone = result.search, result.plan
    if search.problem.gears < 2 or (placed is None and search.deadline.leaves_out("gears for rising load")):
        return result
    progress("gears for rising load")
    goals = Goals.of(search.problem, alone.predicted.objective_s)
    deployment, simulator = result.chosen.deployment, result.simulator
    own_s = result.run.latency_ps / PS_PER_S
    if placed is not None:
        found = placed.ladder
    else:
        found = None if alone.mixture else find_ladder(search, simulator, deployment, own_s, goals)
        found = found if found is not None and keeps_levels(simulator.problem, found) else None
    cheaper = placed is not None and search.problem.objective.goal == "cost"
    dearer = result.fastest.usd_per_hour if cheaper else 0.0
    notes = (*result.notes, *gear_notes(search, deployment, goals, found, alone, own_s, dearer_usd=dearer))
    if found is None:
        return replace(result, notes=notes)
    assert found.certificate is not None
    played = found.played
    predicted = predict(
        simulator.problem,
        played.run,
        simulator.arrivals,
        usd_per_hour=deployment.usd_per_hour,
        stage_bound_s=alone.predicted.stage_bound_s,
        quality=mixed_quality(search, found, alone.predicted.quality),
        shares=search.capacities.shares(simulator.problem, deployment, played.decided),
        rate_rps=alone.predicted.rate_rps,
    )
    within = None
    if alone.error_range is not None:
        within = error_range(
            search.problem,
            simulator,
            deployment,
            played.decided,
            predicted.objective_s,
            carries=alone.headroom or 1.0,
        )
    asked = [bool(by.any()) for by in search.routings.deployed[list(found.routings)].T]
    plan_ = replace(
        alone,
        stages=tuple(
            replace(by, external=stage.external if here else None)
            for by, stage, here in zip(alone.stages, search.problem.stages, asked, strict=True)
        ),
        gears=written_gears(search, simulator.problem, found, goals.bound_s),
        predicted=predicted,
        error_range=within,
        stability=found.certificate.stability,
        wall_s=elapsed(),
    )
    return replace(result, plan=plan_, notes=notes, run=played.run, ladder=found, alone=result.run)


def _proof(allocation: Allocation | None, formulation: Formulation, simulated_s: float, tried: int) -> Proof:
    """`optimal` only where the solver proved that no smaller bound is feasible.

    Where the tables promise no stable allocation for the winner (which was simulated, and is), nothing is proven.
    """
    if allocation is None:
        return Proof("incumbent", formulation, simulated_s, 0.0, 1.0, tried)
    status: Literal["optimal", "incumbent"] = "optimal" if allocation.proven else "incumbent"
    return Proof(status, formulation, allocation.latency_s, allocation.bound_s, allocation.gap, tried)


def _slowest_stage_s(run: CascadeRun, problem: Problem) -> float:
    stages = stage_latencies_s(problem, run).values()
    return max(quantile_s(latency, problem.objective.quantile) for latency in stages)


def _spared(problem: Problem, chosen: Candidate, fastest: Candidate) -> list[str]:
    """Notes on what was spared beside the fastest."""
    spared, goal = fastest.usd_per_hour - chosen.usd_per_hour, problem.objective.goal
    if chosen is fastest or spared <= 0 or goal not in ("latency", "quality"):
        return []
    if goal == "quality":
        return [
            f"the fastest plan found of quality {fastest.quality_lower:.1f} takes {fastest.latency_s:.3g} s for"
            f" ${fastest.usd_per_hour:,.2f}/h; this one, as good and within the bounds, takes"
            f" {chosen.latency_s:.3g} s and is {spared / fastest.usd_per_hour:.0%} cheaper"
        ]
    return [
        f"the fastest plan found takes {fastest.latency_s:.3g} s for ${fastest.usd_per_hour:,.2f}/h; this one is"
        f" {chosen.latency_s / fastest.latency_s - 1:.1%} slower and {spared / fastest.usd_per_hour:.0%} cheaper"
        f" (objective.within: {problem.objective.within:.2g}; 0 takes the fastest)"
    ]


def _worth_it(result: PlanResult, cheaper: Candidate) -> str:
    """Note on why replicas were kept that cost more than others which are as good with one setting."""
    return (
        f"replicas for ${cheaper.usd_per_hour:,.2f}/h are as good with one setting; gears take what these have idle"
        f" for quality {result.plan.predicted.quality.lower:.1f}, which cheaper ones that were looked at do not reach"
    )


def _rent(plan_: Plan) -> list[str]:
    """Units to be rented, under a budget."""
    budget_usd = plan_.cluster.budget_usd_per_hour
    if budget_usd is None:
        return []
    rented = [(pool, pool.rented) for pool in plan_.cluster.pools if pool.rented]
    if not rented:
        return [f"to be rented: nothing, within ${budget_usd:,.2f}/h"]
    said = " and ".join(_units(pool, n) for pool, n in rented)
    price_usd = sum(n * pool.usd_per_unit_hour for pool, n in rented)
    whole = " with each node whole" if any(pool.rent == "node" for pool, _ in rented) else ""
    return [f"to be rented: {said}, ${price_usd:,.2f}/h{whole}, within ${budget_usd:,.2f}/h"]


def _units(pool: Pool, rented: int) -> str:
    unit = "GPU" if pool.rent == "gpu" else "node"
    return f"{rented} {unit}{'s' if rented > 1 else ''} of {pool.name}{' (spot)' if pool.on_spot else ''}"


def _notes(problem: Problem, plan_: Plan) -> list[str]:
    return [
        *short_trace_notes(problem, plan_),
        *_rent(plan_),
        *_budgets(problem, plan_),
        *calibration_notes(plan_),
    ]


def _budgets(problem: Problem, plan_: Plan) -> list[str]:
    """Notes on engines that take another number of tokens an iteration than they would by themselves."""
    usual = EngineConfig().max_num_batched_tokens
    chosen = [
        f"{by.name} {by.config.max_num_batched_tokens:,}"
        for stage, by in zip(problem.stages, plan_.stages, strict=True)
        if stage.searches_batch_tokens and by.deployed and by.config.max_num_batched_tokens != usual
    ]
    if problem.judge.searches_batch_tokens and plan_.judge.replicas:
        tokens = plan_.judge.config.max_num_batched_tokens
        chosen += [f"judge {tokens:,}"] if tokens != usual else []
    if not chosen:
        return []
    return [
        f"tokens an iteration (max_num_batched_tokens) were chosen for these prompts, in place of {usual:,}:"
        f" {', '.join(chosen)}; a number in the spec is kept"
    ]

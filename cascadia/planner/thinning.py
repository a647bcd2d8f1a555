"""Plans of long traces are searched for on a part of them, and then tried on all of it.

Given a trace of n requests and how many to search with, the part is `WINDOWS` stretches of consecutive requests, spread
evenly over the trace and laid end to end, each gap between two the trace's mean. So bursts and the order of lengths
stay as they are within a stretch; arrivals are then stretched by one factor to the whole trace's mean rate. What a
queue gathers over longer than a stretch is lost. Therefore the plan that is found is simulated once on all requests.
Where it breaks the objective's bound there, or the part was wrong by more than `TOLERANCE`, the search is made again
with `GROWTH` times as many requests, in the end with all; else a note says by how much the part was wrong.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from cascadia.domain.deadline import Deadline
from cascadia.domain.gear import Ladder
from cascadia.domain.problem import Problem
from cascadia.domain.workload import Workload
from cascadia.planner.deployment.levels import reached_s
from cascadia.planner.deployment.simulation import Simulator, quantile_s
from cascadia.planner.gears.played import play
from cascadia.planner.plan import PlanResult
from cascadia.planner.search.context import decisions
from cascadia.planner.search.exit_settings import under
from cascadia.planner.stability.repeats import at_rate

REQUESTS = 30_000
"""So many requests are searched with unless more are asked for."""

WINDOWS = 12
GROWTH = 4
TOLERANCE = 0.1


def planned_on_part(
    problem: Problem,
    make: Callable[..., PlanResult],
    requests: int = REQUESTS,
    deadline: Deadline | None = None,
) -> PlanResult:
    """`make`'s plan, by a deadline, for a part of the trace that tells the same as all of it; at the deadline the last
    that was made. Raises what `make` raises of a part."""
    deadline = deadline or Deadline()
    for size in _sizes(problem, requests):
        result = make(thinned(problem, size), deadline=deadline)
        if size >= len(problem.workload):
            return result
        whole_s, levels_s = on_all(problem, result)
        strain = problem.objective.strain(whole_s, levels_s)
        part_s = result.plan.predicted.objective_s
        alike = abs(part_s / whole_s - 1) <= TOLERANCE and strain <= 1.0
        if alike or deadline.passed:
            return replace(result, notes=(*result.notes, _told(problem, size, part_s, whole_s)))
    raise AssertionError("the last size is the whole trace")


def _sizes(problem: Problem, requests: int) -> Iterator[int]:
    """Traces whose prompts share blocks are taken whole: what is found in a cache depends on all before."""
    n = len(problem.workload)
    size = requests if problem.workload.blocks is None else n
    while size < n:
        yield size
        size *= GROWTH
    yield n


def thinned(problem: Problem, requests: int) -> Problem:
    """`problem` with about `requests` of its requests; itself where it has no more."""
    w, n = problem.workload, len(problem.workload)
    if n <= requests:
        return problem
    each = max(requests // WINDOWS, 2)
    starts = np.linspace(0, n - each, WINDOWS).astype(np.int64)
    at = (starts[:, None] + np.arange(each)[None, :]).ravel()
    gap_s = float(w.arrival_s[-1] - w.arrival_s[0]) / (n - 1)
    gaps = np.diff(w.arrival_s[at], prepend=w.arrival_s[at[0]])
    gaps[each::each] = gap_s
    arrival_s = np.cumsum(gaps)
    arrival_s *= len(at) / max(w.rate_rps, 1e-12) / max(float(arrival_s[-1]), 1e-12)
    part = Workload(
        arrival_s,
        w.row[at],
        w.input_tokens[:, at],
        w.output_tokens[:, at],
        w.prefix_tokens[at],
        drawn=None if w.drawn is None else w.drawn[:, at],
        told_by_table=w.told_by_table,
    )
    return replace(problem, workload=part)


def on_all(problem: Problem, result: PlanResult) -> tuple[float, tuple[float, ...]]:
    """The objective's quantile, in seconds, of the plan on every request of `problem`, and of each level."""
    if result.setting is not None:
        problem = under(problem, result.setting)
    if problem.objective.goal == "rate":
        problem = at_rate(problem, result.plan.predicted.rate_rps / problem.workload.rate_rps)
    simulator = Simulator.of(problem)
    deployment = result.chosen.deployment
    ladder = Ladder(()) if result.ladder is None else result.ladder.ladder
    gears = [deployment.routing] if result.ladder is None else result.ladder.routings
    decided = [decisions(problem, result.search.routings, k) for k in gears]
    run = play(simulator, deployment, decided, ladder).run
    reached = reached_s(problem, run, problem.objective.levels)
    return quantile_s(simulator.latency_s(run), problem.objective.quantile), reached


def _told(problem: Problem, size: int, part_s: float, whole_s: float) -> str:
    quantile = f"p{problem.objective.quantile * 100:g}"
    return (
        f"planned on {size:,} of the trace's {len(problem.workload):,} requests, in {WINDOWS} stretches of it; with all"
        f" of them {quantile} is {whole_s:.3g} s where these say {part_s:.3g} s ({part_s / whole_s - 1:+.1%});"
        " --plan-requests takes more"
    )

"""The best deployment of a search, by all ways that planning knows: one truth for plans, refusals and comparisons.

Where the search itself finds none that keeps the bounds, others are asked one after the other: replicas that are sent
nearly all that they sustain, mixtures of routings, a deployment known from elsewhere, and what the search for the
fastest has met. None is refused what another goal finds within the same bounds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.joined import Joined
from cascadia.planner.refinement.batch_tokens import with_fewest
from cascadia.planner.refinement.carried_on import with_known
from cascadia.planner.refinement.mixed_search import where_none, with_mixed
from cascadia.planner.refinement.nearly_full import fullest, nearly_full
from cascadia.planner.refinement.refine import Candidate, Effort, rank, within_limits
from cascadia.planner.refinement.state import PLAINLY_OVERLOADED
from cascadia.planner.refinement.supersets import Found, best_of_parts
from cascadia.planner.refinement.thrift import cheapest_beside, seeks
from cascadia.planner.routing.routings import Routings
from cascadia.planner.search.bilevel import Solver
from cascadia.planner.search.context import Search

Known = tuple[Deployment, Routings]
"""A deployment that another search has found, and the routings that it numbers its own among."""

FAST_ONES = 8
"""Candidates of the search for the fastest that are tried, those that promise the most for the goal."""


@dataclass(frozen=True, slots=True)
class Ways:
    """How a search goes. `starts`: deployments of others that it looks at."""

    solver_of: Callable[[Search], Solver]
    effort: Effort | None
    progress: Callable[[str], None]
    starts: Callable[[Search], Sequence[Deployment]] = lambda _: ()


def best_found(
    search: Search,
    ways: Ways,
    *,
    also: Sequence[Deployment] = (),
    known: Known | None = None,
) -> Found:
    """The best within all bounds; `best` is None where nothing keeps them, beside what the search itself has met.

    `also`: starts of this search alone. `known`: a deployment and its routings, looked at where nothing else is found.
    """
    starts = Joined(ways.starts(search), also)
    found = best_of_parts(search, ways.solver_of, ways.effort, ways.progress, starts)
    if found.best is None:
        resort = _otherwise(search, found, ways, known)
        if resort is None or resort.best is None:
            return found
        found = resort
    if search.problem.quality.left is None and found.search.routings.mixed is None:
        # Bounds of mixtures are of the table's own lattice, not of its points'.
        found = with_mixed(found, ways.solver_of, ways.effort, ways.progress)
    return _with_thrift(found, ways)


def _with_thrift(found: Found, ways: Ways) -> Found:
    """`found` beside what is cheaper, where the goal leaves open what plans cost, and what was better on the way."""
    if found.thrift is not None or not seeks(found.search.problem.objective):
        return found
    assert found.best is not None
    thrift = cheapest_beside(
        found.search, found.loop, found.best, found.candidates, ways.progress, effort=ways.effort
    )
    return replace(found, best=thrift.best, candidates=thrift.candidates, thrift=thrift)


def _otherwise(search: Search, found: Found, ways: Ways, known: Known | None) -> Found | None:
    resort = _nearly_full(search, ways)
    if (resort is None or resort.best is None) and search.problem.quality.left is None:
        resort = where_none(found, ways.solver_of, ways.effort, ways.progress)
    if (resort is None or resort.best is None) and known is not None:
        resort = with_known(found, *known)
    if resort is None or resort.best is None:
        resort = _among_the_fastest(search, found, ways)
    return resort


def _nearly_full(search: Search, ways: Ways) -> Found | None:
    """Candidate found near capacity; None where there is nothing to begin with."""
    full, fewest = nearly_full(search), with_fewest(search)
    # With fewer tokens an iteration other replicas may carry what those of `full` do not, or sooner: no step tells.
    starts = [*fullest(full), *(() if fewest is None else fullest(nearly_full(fewest)))]
    if not starts:
        return None
    ways.progress("nothing found; looking near capacity")
    return best_of_parts(full, ways.solver_of, ways.effort, ways.progress, starts)


def _among_the_fastest(search: Search, found: Found, ways: Ways) -> Found | None:
    """The best that the search for the fastest has met within the bounds, where a bound on latency is what binds."""
    problem = search.problem
    slow = any(c.load <= PLAINLY_OVERLOADED for c in found.candidates)
    if problem.objective.latency_max_s is None or not slow or search.deadline.leaves_out("the fastest plan"):
        return None
    ways.progress("what is the lowest latency?")
    fast = fastest(search, ways)

    def key(c: Candidate) -> tuple[float, ...]:
        return rank(problem, c)

    within = sorted((c for c in fast.candidates if within_limits(problem, c)), key=key)
    soonest = least_held(fast)
    first = within[:FAST_ONES] if soonest is None else [*within[:FAST_ONES], soonest]
    tried = (with_known(found, c.deployment, fast.search.routings) for c in first)
    return next((one for one in tried if one is not None), None)


def fastest(search: Search, ways: Ways) -> Found:
    """The same search for the least latency, whatever its goal and its bound on that; made once."""
    objective = replace(search.problem.objective, goal="latency", latency_max_s=None)
    key = (search.problem.cluster, objective)
    made: dict[object, Found] = search.memory.setdefault("fastest", {})
    if key not in made:
        problem = replace(search.problem, objective=objective)
        made[key] = best_found(replace(search, problem=problem), ways)
    return made[key]


def least_held(found: Found, beside: Sequence[Candidate] = ()) -> Candidate | None:
    """The candidate that is the fastest when the trace goes on, of those that are known to hold and keep all bounds.

    `beside`: candidates that the search for another goal or bound has met.
    """
    problem = found.search.problem
    known = [*found.candidates, *beside, *(() if found.best is None else (found.best,))]
    held = (
        c for c in known if within_limits(problem, c) and c.certificate is not None and c.certificate.holds
    )
    return min(held, key=lambda c: (c.held_s, *rank(problem, c)), default=None)

"""The best plan of a cluster by way of the best plans of its parts, so that more GPUs to choose from cost nothing.

A search that stops somewhere may find less where it has more to look at. Here every combination of the cluster's pools
is searched, from single ones up, and each search

    best(P) = the best of  search(P, starting from best(P - p) for every pool p)  and those starts themselves

where what is better than `best` and was met on the way to something cheaper counts (`thrift.py`), so that by induction
best(P) is at least as good as best(Q) for every Q within P. It is also what planning for Q alone
finds: tables are made pool by pool, and a search knows nothing of pools beyond its own. Beyond `EVERY` pools there are
too many combinations: then each pool alone, and each pair, are searched before the whole.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import ceil, log2

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.problem import Problem
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.joined import Joined
from cascadia.planner.refinement.batch_tokens import rebudgeted, takes_as, with_fewest
from cascadia.planner.refinement.refine import Candidate, Effort, effort_for, rank, refine
from cascadia.planner.refinement.shortlist import usd_needed
from cascadia.planner.refinement.thrift import Thrift, cheapest_beside, seeks
from cascadia.planner.search.bilevel import BilevelResult, Solver, bilevel
from cascadia.planner.search.context import Search, allowed, on_pools
from cascadia.planner.search.reference_tables import References

EVERY = 3

FEW_NODES, AFFORDED = 8, 2.0
"""Nodes that are looked at however little they cost, and times the least cost beyond which no more are."""

ONCE_MORE = 0.5
"""Share of the time after the single pools' searches for the best of them, where its part of the time cut it short."""

CROWDED = 0.7
"""Load of the fastest from which shapes with few tokens are looked at too: how much these carry decides then."""

Names = frozenset[str]
Tried = dict[object, Candidate]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """`best` is None where nothing keeps the bounds. `candidates` are of all parts, `loop` of the whole cluster, and so
    is `search`, whose engines take as many tokens an iteration as `best`'s. `thrift`: the cheapest beside `best`, where
    it was looked for in all of them.
    """

    best: Candidate | None
    candidates: tuple[Candidate, ...]
    search: Search
    loop: BilevelResult
    thrift: Thrift | None = None


def best_of_parts(
    search: Search,
    solver_of: Callable[[Search], Solver],
    effort: Effort | None,
    progress: Callable[[str], None],
    starts: Sequence[Deployment] = (),
) -> Found:
    """The best candidate of the cluster and of its parts. `effort`: by the number of pools where None.

    `starts`: deployments from elsewhere that the search of the whole cluster looks at too.
    """
    problem = search.problem
    best: dict[Names, Candidate] = {}
    tried: dict[Names, Tried] = {}
    cut: dict[Names, Search] = {}
    loop: BilevelResult | None = None
    thrift: Thrift | None = None
    everywhere = frozenset(pool.name for pool in problem.cluster.pools)

    def look(part: Search, names: Names, starts: Sequence[Deployment]) -> None:
        nonlocal loop, thrift
        few = on_few_nodes(part)
        one = searched(few or part, solver_of, effort, progress, starts)
        if few is not None and one.best is None and (names == everywhere or not part.deadline.passed):
            # In time, or as the last resort.
            one = searched(part, solver_of, effort, progress, starts)
        mine = tried.setdefault(names, {})
        mine.update((c.deployment.key, c) for c in one.candidates)
        loop = one.loop
        if one.best is not None and (
            names not in best or rank(problem, one.best) <= rank(problem, best[names])
        ):
            best[names] = one.best
        if names in best and seeks(problem.objective):
            here = _all_within(tried, names).values()
            thrift = cheapest_beside(one.search, one.loop, best[names], here, progress, effort=effort)
            best[names] = thrift.best
            mine.update((c.deployment.key, c) for c in thrift.candidates)

    every_part = list(parts(problem.cluster))
    for at, pools in enumerate(every_part):
        part = on_pools(search, pools)
        if part is None:
            continue
        names = frozenset(pool.name for pool in pools)
        in_time = len(names) > 1 and not search.deadline.passed
        if in_time and (again := _best_cut_short(problem, best, cut)):
            # Of that pool alone it would have had all the time: so near to it as can be.
            longer = replace(cut[again], deadline=search.deadline.part(ONCE_MORE))
            progress(f"on {' and '.join(again)} alone, once more")
            look(longer, again, [best[again].deployment])
            cut = {}
        whole = len(pools) == len(problem.cluster.pools)
        if (best or (loop is not None and not whole)) and search.deadline.leaves_out(
            f"the search on {' and '.join(sorted(names))}"
        ):
            continue
        part = replace(part, deadline=search.deadline.part(1 / (len(every_part) - at)))
        if not whole:
            progress(f"on {' and '.join(sorted(names))} alone")
        look(part, names, Joined(_starts(best, names), starts if whole else ()))
        if len(names) == 1 and part.deadline.passed:
            cut[names] = part
    assert (
        loop is not None
    )  # every stage fits on the whole cluster, which is left out only after another part
    thrift = thrift if everywhere in best else None
    chosen = min(best.values(), key=lambda c: rank(problem, c), default=None)
    if thrift is not None and chosen is not None:
        # Of equals that of the whole, beside which cheaper ones were looked for.
        chosen = min(thrift.best, chosen, key=lambda c: rank(problem, c))
        thrift = thrift if chosen is thrift.best else None
    search = (rebudgeted(search, chosen.deployment) if chosen else None) or search
    return Found(chosen, tuple(_all_within(tried, everywhere).values()), search, loop, thrift)


def on_few_nodes(search: Search) -> Search | None:
    """Where least cost is sought, the search on as many nodes as `AFFORDED` times the least that the traffic costs buys
    of each pool; None where that is all there are. What costs more is not looked at for as long as anything else keeps
    the bounds, so that a plan is neither sought for longer, nor another, for there being more nodes.
    """
    problem = search.problem
    pools = problem.cluster.pools
    rents = problem.cluster.budget_usd_per_hour is not None
    if problem.objective.goal != "cost" or rents or all(pool.nodes <= FEW_NODES for pool in pools):
        return None
    few = on_pools(search, [replace(pool, nodes=min(pool.nodes, FEW_NODES)) for pool in pools])
    if few is None or not (good := allowed(few)).any():
        return None
    least_usd = float(usd_needed(References.of(few))[good].min())
    bought = [_bought(pool, AFFORDED * least_usd) for pool in pools]
    return on_pools(search, bought) if bought != list(pools) else None


def _bought(pool: Pool, usd_per_hour: float) -> Pool:
    """The pool with as many nodes as that buys, a power of two: parts of a cluster then share their tables."""
    if pool.usd_per_node_hour <= 0:
        return pool
    nodes = max(FEW_NODES, 1 << ceil(log2(max(usd_per_hour / pool.usd_per_node_hour, 1.0))))
    return replace(pool, nodes=min(pool.nodes, nodes))


def _all_within(tried: dict[Names, Tried], names: Names) -> Tried:
    """Candidates that the parts within `names` have met."""
    return {key: c for part in tried if part <= names for key, c in tried[part].items()}


def _best_cut_short(problem: Problem, best: dict[Names, Candidate], cut: dict[Names, Search]) -> Names | None:
    """The single pool with the best plan so far, where its search was cut short; else None."""
    single = [names for names in best if len(names) == 1]
    first = min(single, key=lambda names: rank(problem, best[names]), default=None)
    return first if first in cut else None


def searched(
    search: Search,
    solver_of: Callable[[Search], Solver],
    effort: Effort | None,
    progress: Callable[[str], None],
    starts: Sequence[Deployment],
    *,
    equal_parts: bool = False,
) -> Found:
    """The best of one search, and of one with other numbers of tokens an iteration (`with_other_tokens`).

    `equal_parts`: as `refine` takes it.
    """
    effort = effort or effort_for(search.problem.cluster)
    find = partial(refine, effort=effort, progress=progress, equal_parts=equal_parts)
    loop = bilevel(search, solver_of(search), progress)
    best, tried = find(search, loop, starts=starts)
    if search.deadline.passed or (anew := with_other_tokens(search, best)) is None:
        return Found(best, tuple(tried), search, loop)
    progress("once more, with another number of tokens an iteration")
    again_loop = bilevel(anew, solver_of(anew), progress)
    known = [*starts, best.deployment] if best is not None else starts
    again, more = find(anew, again_loop, starts=known)
    if again is not None and (best is None or rank(search.problem, again) <= rank(search.problem, best)):
        best = again
    if best is None or takes_as(anew, best.deployment) or not takes_as(search, best.deployment):
        search, loop = anew, again_loop
    return Found(best, (*tried, *more), search, loop)


def with_other_tokens(search: Search, best: Candidate | None) -> Search | None:
    """The search with the numbers of tokens an iteration that help `best`, since other shapes may then be best; where
    none does, or there is none, with the fewest. None where there is nothing to look at.

    What is the fastest on GPUs that are not `CROWDED`, steps tell; what is the cheapest or the best, or whether there
    is any, they do not.
    """
    anew = None if best is None else rebudgeted(search, best.deployment)
    told = best is not None and search.problem.objective.goal == "latency" and best.load < CROWDED
    return with_fewest(search) if anew is None and not told else anew


def parts(cluster: Cluster) -> Iterator[Sequence[Pool]]:
    """Combinations of pools, smaller ones first; the whole cluster is the last."""
    pools = cluster.pools
    largest = len(pools) - 1 if len(pools) <= EVERY else 2
    for count in range(1, largest + 1):
        yield from combinations(pools, count)
    yield pools


def _starts(best: dict[Names, Candidate], names: Names) -> list[Deployment]:
    """The best deployments of the largest parts within `names`."""
    within = [mine for mine in best if mine < names]
    largest = [mine for mine in within if not any(mine < other for other in within)]
    return [best[mine].deployment for mine in largest]

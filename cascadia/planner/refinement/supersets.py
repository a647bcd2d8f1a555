"""The best plan of a cluster by way of the best plans of its parts, so that more GPUs to choose from cost nothing.

A search that stops somewhere may find less where it has more to look at. Here every combination of the cluster's pools
is searched, from single ones up, and each search

    best(P) = the best of  search(P, starting from best(P - p) for every pool p)  and those starts themselves

so that by induction best(P) is at least as good as best(Q) for every Q within P. It is also what planning for Q alone
finds: tables are made pool by pool, and a search knows nothing of pools beyond its own. Beyond `EVERY` pools there are
too many combinations: then each pool alone, and each pair, are searched before the whole.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from cascadia.domain.cluster import Cluster, Pool
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.refinement.batch_tokens import rebudgeted
from cascadia.planner.refinement.refine import Candidate, Effort, effort_for, rank, refine
from cascadia.planner.search.bilevel import BilevelResult, Solver, bilevel
from cascadia.planner.search.context import Search, on_pools

EVERY = 3

Names = frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """`best` is None where nothing keeps the bounds. `candidates` are of all parts, `loop` of the whole cluster, and so
    is `search`, whose engines take as many tokens an iteration as `best`'s.
    """

    best: Candidate | None
    candidates: tuple[Candidate, ...]
    search: Search
    loop: BilevelResult


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
    every: dict[object, Candidate] = {}
    loop: BilevelResult | None = None
    every_part = list(parts(problem.cluster))
    for at, pools in enumerate(every_part):
        part = on_pools(search, pools)
        if part is None:
            continue
        names = frozenset(pool.name for pool in pools)
        whole = len(pools) == len(problem.cluster.pools)
        if (best or (loop is not None and not whole)) and search.deadline.leaves_out(
            f"the search on {' and '.join(sorted(names))}"
        ):
            continue
        part = replace(part, deadline=search.deadline.part(1 / (len(every_part) - at)))
        if not whole:
            progress(f"on {' and '.join(sorted(names))} alone")
        mine = [*_starts(best, names), *(starts if whole else ())]
        one = searched(part, solver_of, effort, progress, mine)
        every |= {c.deployment.key: c for c in one.candidates}
        loop = one.loop
        if one.best is not None:
            best[names] = one.best
    assert (
        loop is not None
    )  # every stage fits on the whole cluster, which is left out only after another part
    chosen = min(best.values(), key=lambda c: rank(problem, c), default=None)
    search = (rebudgeted(search, chosen.deployment) if chosen else None) or search
    return Found(chosen, tuple(every.values()), search, loop)


def searched(
    search: Search,
    solver_of: Callable[[Search], Solver],
    effort: Effort | None,
    progress: Callable[[str], None],
    starts: Sequence[Deployment],
) -> Found:
    """The best of one search. Where it helps that engines take other numbers of tokens an iteration, the search is made
    once more with these from its start, since other shapes may then be best; its best is the better of both.
    """
    effort = effort or effort_for(search.problem.cluster)
    loop = bilevel(search, solver_of(search), progress)
    best, tried = refine(search, loop, effort=effort, progress=progress, starts=starts)
    if search.deadline.passed:
        return Found(best, tuple(tried), search, loop)
    if best is not None and (anew := rebudgeted(search, best.deployment)) is not None:
        progress("once more, with as many tokens an iteration as was found to help")
        loop = bilevel(anew, solver_of(anew), progress)
        best, more = refine(anew, loop, effort=effort, progress=progress, starts=[*starts, best.deployment])
        search, tried = anew, [*tried, *more]
    return Found(best, tuple(tried), search, loop)


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

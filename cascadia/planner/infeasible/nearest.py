"""The nearest value with which there is a plan, found by asking planning itself: other bars, larger clusters."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.cluster import Pool
from cascadia.domain.problem import Problem
from cascadia.planner.refinement.best import Known
from cascadia.planner.refinement.nearly_full import nearly_full
from cascadia.planner.refinement.refine import Candidate
from cascadia.planner.search.context import Search, allowed, start_search
from cascadia.planner.search.least_gpus import gpus_wanted
from cascadia.planner.search.reference_tables import References
from cascadia.planner.search.throughput import max_rate_rps
from cascadia.planner.stability.repeats import at_rate, slowest

Floats = NDArray[np.float64]
T = TypeVar("T")

SEARCHED_GPUS = 16
"""How many times a pool's GPUs are tried before the answer is "more than"."""

FULL_NODE = 8
"""A cluster of a single node grows to this many GPUs in it before it grows by nodes."""

MOST_SUSTAINED, MOST_KEPT = 8, 8
"""A refusal is not to take many times as long as a plan: so many questions at most for each thing that could be other,
of those that are answered quickly, and of those that take about a plan each."""

LOWER, LOWEST_RATES = 0.96, 58
"""Rates are asked for in such steps, down to a tenth."""
Asks = Callable[[Search], bool]
"""Does planning find any plan that keeps the objective's bounds?"""

Kept = Callable[[Search], Known | None]
"""A deployment with which planning keeps them; None where it finds none."""

Fastest = Callable[[Search, Sequence[Candidate]], float | None]
"""Seconds at the objective's quantile that the fastest plan, whatever the goal, keeps when its trace goes on, with all
else: of those found for it, and of the candidates that the search has met."""


@dataclass(frozen=True, slots=True)
class Planning:
    """`sustains` leaves the latency bound aside and is quick; `kept` heeds it. `progress` is told of each question.
    `rents`: the problem on what is rented of all that is offered.
    """

    sustains: Asks
    kept: Kept
    fastest: Fastest
    progress: Callable[[str], None]
    rents: Callable[[Problem], Problem]

    def keeps(self, search: Search) -> bool:
        return self.kept(search) is not None


def first_that_holds(
    after: int, count: int, guess: int, holds: Callable[[int], bool], most: int = sys.maxsize
) -> int | None:
    """A position in (`after`, `count`) that holds while the one before it does not; None where the last does not.

    `after` is known not to hold. Asked from `guess` on in steps of 1, 1, 2, 4, ..., then by halving, `most` times: then
    the one before may hold too. The last question that may be asked while nothing holds is for the last position.
    """
    low, high, asked = after, count, 0
    at = min(max(guess, low + 1), high - 1)
    for left in range(most, 0, -1):
        if high - low <= 1:
            break
        if left == 1 and high == count:
            at = count - 1
        if holds(at):
            high = at
        else:
            low = at
        if low > after and high < count:
            at = (low + high) // 2
        else:
            step = 2 ** max(asked - 1, 0)
            at = max(high - step, low + 1) if high < count else min(low + step, high - 1)
            asked += 1
    return high if high < count else None


def nearest_kept(first: int, count: int, holds: Callable[[int], bool], most: int = MOST_KEPT) -> int | None:
    """The first position in [`first`, `count`) that holds, to within what `most` questions tell; None where neither
    the first two nor the last one do.

    How far beyond what is sustained a bound on latency is kept, nothing tells: mostly the first two say, or none does.
    So the last is asked after them, and then what lies between is halved.
    """
    low, high = first - 1, count
    for at in dict.fromkeys((first, min(first + 1, count - 1), count - 1)):
        if holds(at):
            high = at
            break
        low, most = at, most - 1
    while high < count and high - low > 1 and most > 1:
        middle, most = (low + high) // 2, most - 1
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high if high < count else None


@dataclass(frozen=True, slots=True)
class Nearest(Generic[T]):
    """Nearest values: what can be sustained, and what keeps the latency bound too; None where nothing (that was
    tried) does.
    """

    sustained: T | None
    kept: T | None


def best_bar(search: Search, below: float, prices_s: Floats, planning: Planning) -> Nearest[float]:
    """The highest quality bar under `below` with a plan on the cluster as it is, rounded downward.

    `prices_s` (infinite: not sustained) say where to begin.
    """
    bars = sorted({rounded_down(q) for q in search.routings.lower.tolist()} - {below}, reverse=True)
    bars = [bar for bar in bars if bar < below]
    sustained = search.routings.lower[np.isfinite(prices_s)]
    hoped = rounded_down(float(sustained.max())) if len(sustained) else -np.inf
    guess = next((at for at, bar in enumerate(bars) if bar <= hoped), len(bars) - 1)

    def asked(at: int) -> Search:
        planning.progress(f"is there a plan at quality {bars[at]:g}?")
        objective = replace(search.problem.objective, quality_min=bars[at])
        return replace(search, problem=replace(search.problem, objective=objective))

    return nearest_of(search, bars, guess, asked, planning)


def best_rate(search: Search, planning: Planning) -> float | None:
    """The highest of some rates below today's with a plan, to two digits or so; None where no tenth of it has one."""
    rate = search.problem.workload.rate_rps
    named = dict.fromkeys(float(f"{rate * LOWER**step:.3g}") for step in range(1, LOWEST_RATES))
    rates = [r for r in named if r / rate >= slowest(search.problem)]
    carried = max_rate_rps(nearly_full(search), np.flatnonzero(allowed(search)))
    guess = next((at for at, r in enumerate(rates) if r <= carried), len(rates) - 1)

    def asked(at: int) -> Search:
        planning.progress(f"is there a plan at {rates[at]:g} requests/s?")
        return start_search(
            at_rate(search.problem, rates[at] / rate), search.routings, search.threads, search.deadline
        )

    return nearest_of(search, rates, guess, asked, planning).kept


def least_pool(search: Search, references: References, planning: Planning) -> tuple[Pool, Nearest[Pool]]:
    """The smallest pool with a plan at the bar, all other pools as they are, and the largest that was tried.

    The pool grows that seems to need the fewest GPUs more; where that is in vain, the next.
    """
    wanted = {
        pool: gpus_wanted(search, references, pool, SEARCHED_GPUS) for pool in search.problem.cluster.pools
    }
    order = sorted(wanted, key=lambda p: (wanted[p] - p.gpus, -p.gpus))
    for pool in order:
        sizes = list(grown(pool))
        guess = next((at for at, size in enumerate(sizes) if size.gpus >= wanted[pool]), len(sizes) - 1)

        def asked(at: int, sizes: list[Pool] = sizes) -> Search:
            planning.progress(f"is there a plan with {sizes[at].gpus} GPUs{_in(search, sizes[at])}?")
            return _with_pool(search, sizes[at])

        if (found := nearest_of(search, sizes, guess, asked, planning)).sustained is not None:
            return sizes[-1], found
    return list(grown(order[0]))[-1], Nearest(None, None)


def _in(search: Search, pool: Pool) -> str:
    return f" in pool {pool.name}" if len(search.problem.cluster.pools) > 1 else ""


def nearest_of(
    search: Search, values: list[T], guess: int, asked: Callable[[int], Search], planning: Planning
) -> Nearest[T]:
    """The first of `values` with a plan, from `guess` on; `asked` makes the search of each."""
    at = first_that_holds(-1, len(values), guess, lambda i: planning.sustains(asked(i)), MOST_SUSTAINED)
    if at is None:
        return Nearest(None, None)
    kept: int | None = at
    if search.problem.objective.bounds:
        kept = nearest_kept(at, len(values), lambda i: planning.keeps(asked(i)))
    return Nearest(values[at], None if kept is None else values[kept])


def grown(pool: Pool) -> Iterator[Pool]:
    """`pool` with more GPUs, by and by: a single node is filled first, then whole nodes come."""
    full = max(pool.gpus_per_node, FULL_NODE) if pool.nodes == 1 else pool.gpus_per_node
    for gpus in range(pool.gpus_per_node + 1, full + 1):
        yield replace(pool, gpus_per_node=gpus)
    for nodes in range(pool.nodes + 1, max(SEARCHED_GPUS * pool.gpus // full, 2) + 1):
        yield replace(pool, nodes=nodes, gpus_per_node=full)


def _with_pool(search: Search, size: Pool) -> Search:
    pools = tuple(size if p.name == size.name else p for p in search.problem.cluster.pools)
    problem = replace(search.problem, cluster=replace(search.problem.cluster, pools=pools))
    return start_search(problem, search.routings, search.threads, search.deadline)


def rounded_down(quality: float) -> float:
    """Quality to two decimals, downward: what is named must be reachable."""
    return float(np.floor(quality * 100) / 100)

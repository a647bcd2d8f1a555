"""Cascadia's bi-level loop (algorithm 1): deployment by integer program, routing by Chebyshev-guided choice.

Start at proportional routing (type i gets 1/i of the requests, section 3.3). Each round makes the tables of the
present routing, solves its deployment, and moves to the routing that minimises

    J(theta) = L(theta) + mu * max(0, (q_min - Q(theta)) / (z1 - z2))                          (section 3.3)
    J(theta) = -Q(theta) + nu * max(0, L(theta) - L_max) / (z_max - z_min)                     (appendix C)

with L exact where a round has been there and priced from the tables elsewhere, Q the lower confidence bound.
It ends when the best J has not changed for K rounds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.objective import Objective
from cascadia.planner.allocation.demand import Allocation, Demand
from cascadia.planner.routing.dominance import lightest
from cascadia.planner.routing.routings import Routings
from cascadia.planner.search.context import Search, allowed
from cascadia.planner.search.pricing import Prices
from cascadia.planner.search.reference_tables import References
from cascadia.planner.search.throughput import most_sustaining

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

STABLE_ROUNDS = 2
STABLE = 0.01
"""K: the loop ends after this many rounds in a row that improve the best J by less than this share."""
MAX_ROUNDS = 12
MU = 1000.0
"""Penalty weight, in multiples of the largest latency on the grid: any shortfall outweighs any latency."""
CLOSELY = "routings near what the GPUs sustain"
CLOSER = 4
HOPELESS = 0.8
"""Routings that are worked out although none has a price, if they seem to sustain this much of today's rate."""
MAX_PRICED = 600
MAX_RELAXED = 120
"""Routings priced in one round: by covering on one pool, by linear relaxation on several."""


class Solver(Protocol):
    def __call__(self, demands: list[Demand]) -> Allocation | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One evaluated routing. `allocation` is None where the cluster cannot sustain it."""

    routing: int
    demands: tuple[Demand, ...]
    allocation: Allocation | None
    score: float

    @property
    def latency_s(self) -> float:
        return self.allocation.latency_s if self.allocation else np.inf


@dataclass(frozen=True, slots=True, eq=False)
class BilevelResult:
    """`prices_s` are by routing (infinite: cannot be sustained; NaN: never priced)."""

    rounds: tuple[Round, ...]
    prices_s: Floats
    references: References

    @property
    def best(self) -> Round:
        return min(self.rounds, key=lambda r: r.score)


def bilevel(search: Search, solve: Solver, progress: Callable[[str], None]) -> BilevelResult:
    objective, routings = search.problem.objective, search.routings
    references = References.of(search)
    exact: dict[int, Round] = {}
    every = np.arange(len(routings))
    prices = np.full(len(every), np.nan)
    routing, stable, best = proportional(routings), 0, np.inf
    while stable < STABLE_ROUNDS and len(exact) < MAX_ROUNDS:
        if exact and search.deadline.leaves_out("further rounds of choosing routings"):
            break
        exact[routing] = evaluated(search, routing, solve)
        references.add(routing, exact[routing].demands)
        prices = priced(references)
        for known, round_ in exact.items():
            # The tables' price is an estimate from references; here the routing's own tables have been
            # solved.
            prices[known] = round_.latency_s
        scores = chebyshev(objective, routings, prices)
        progress(f"round {len(exact)}: stage bound {exact[routing].latency_s:.3g} s")
        found = min(float(scores[k]) for k in exact)
        stable, best = (0 if improves(found, best) else stable + 1), min(found, best)
        routing = next((k for k in np.argsort(scores, kind="stable").tolist() if k not in exact), -1)
        if routing < 0 or not np.isfinite(scores[routing]):
            break
    unsure = _unpriced(search, prices) & ~np.isin(every, list(exact))
    for routing in _near_saturation(search, np.flatnonzero(unsure)):
        if search.deadline.leaves_out(CLOSELY):
            break
        progress("what seems not to be sustained is looked at closely")
        exact[routing] = evaluated(search, routing, solve)
        references.add(routing, exact[routing].demands)
        prices[routing] = exact[routing].latency_s
    scores = chebyshev(objective, routings, prices)
    rounds = tuple(Round(r.routing, r.demands, r.allocation, float(scores[k])) for k, r in exact.items())
    return BilevelResult(rounds, prices, references)


def evaluated(search: Search, routing: int, solve: Solver) -> Round:
    """The routing's deployment by tables of its own, not yet scored."""
    demands = search.demands(routing)
    if not demands:
        return Round(routing, (), Allocation({}, 0.0, 0.0), 0.0)
    return Round(routing, tuple(demands), solve(demands), 0.0)


def _unpriced(search: Search, prices: Floats) -> Bools:
    """Routings that nothing seems to sustain and that may be the best all the same: those of more quality than any
    that is sustained where that is sought, else the lightest at the bar; where none is sustained, all at the bar.
    """
    good = allowed(search)
    unpriced: Bools = good & ~np.isfinite(prices)
    if unpriced[good].all():
        return unpriced
    unpriced &= np.isinf(prices)
    if search.problem.objective.goal == "quality":
        lower = search.routings.lower
        unpriced &= lower > lower[good & np.isfinite(prices)].max()
    else:
        unpriced &= np.isin(np.arange(len(prices)), lightest(search.routings.reached, good))
    return unpriced


def _near_saturation(search: Search, routings: NDArray[np.int64]) -> list[int]:
    """Members of `routings` that tables of their own may show to be sustained, though the references' do not.

    References know whole levels of load only, and the tokens of all requests instead of a routing's own.
    """
    if not len(routings):
        return []
    return [k for k, factor in most_sustaining(search, routings, most=CLOSER) if factor >= HOPELESS]


def improves(score: float, best: float) -> bool:
    """Tells whether `score` is better than `best` by more than the share that counts as standing still."""
    return score < best - STABLE * abs(best) if np.isfinite(best) else np.isfinite(score)


def chebyshev(objective: Objective, routings: Routings, latency_s: Floats) -> Floats:
    """J for every routing: the smaller the better; infinite where no deployment sustains it or none was priced."""
    latency = np.where(np.isnan(latency_s), np.inf, latency_s)
    finite = latency[np.isfinite(latency)]
    if not len(finite):
        return np.full(len(latency), np.inf)
    scale = max(float(finite.max()), 1e-9)
    spread = max(float(routings.mean.max() - routings.mean.min()), 1e-9)
    if objective.goal == "quality":
        limit = objective.deadline.max_s if objective.deadline else float(finite.max())
        width = max(float(finite.max() - finite.min()), 1e-9)
        over = np.maximum(0.0, latency - limit) / width
        return np.where(np.isfinite(latency), -routings.lower + MU * over, np.inf)
    shortfall = np.maximum(0.0, (objective.quality_min or 0.0) - routings.lower) / spread
    return latency + MU * scale * shortfall


def proportional(routings: Routings) -> int:
    """The routing nearest to theta_0, in which stage i (from 1) gets 1/i of all requests."""
    target = 1.0 / np.arange(1, routings.reached.shape[1] + 1)
    return int(np.abs(routings.reached - target).sum(axis=1).argmin())


def priced(references: References) -> Floats:
    """The price of every routing, or of as many as time allows, spread over those that are good enough; else NaN."""
    search = references.search
    at_most = MAX_PRICED if len(search.problem.cluster.pools) == 1 else MAX_RELAXED
    chosen = _most_useful(search, at_most)
    prices = np.full(len(search.routings), np.nan)
    prices[chosen] = Prices(references, chosen).least_bound_s()
    return prices


def _most_useful(search: Search, at_most: int) -> NDArray[np.int64]:
    """All routings, or the lightest that reach the bar and, evenly spread by quality, others that do."""
    routings = search.routings
    if len(routings) <= at_most:
        return np.arange(len(routings))
    good = np.flatnonzero(allowed(search))
    chosen = good if len(good) else np.arange(len(routings))
    light = _spread(
        lightest(routings.reached, np.isin(np.arange(len(routings)), chosen)), routings, at_most // 2
    )
    useful: NDArray[np.int64] = np.union1d(light, _spread(chosen, routings, at_most - len(light)))
    return useful


def _spread(chosen: NDArray[np.int64], routings: Routings, at_most: int) -> NDArray[np.int64]:
    """Sample of at most so many of `chosen`, evenly by quality."""
    ordered = chosen[np.argsort(routings.lower[chosen], kind="stable")]
    keep = np.unique(np.rint(np.linspace(0, len(ordered) - 1, at_most)).astype(int))
    spread: NDArray[np.int64] = ordered[keep]
    return spread


def iterate_by_score(result: BilevelResult, objective: Objective, routings: Routings) -> Iterator[int]:
    """Routings by J, best first; those never priced or not sustainable are left out."""
    scores = chebyshev(objective, routings, result.prices_s)
    for k in np.argsort(scores, kind="stable").tolist():
        if np.isfinite(scores[k]):
            yield k

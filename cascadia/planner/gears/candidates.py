"""Routings that may be gears of a deployment: those that its replicas can serve, spread by quality and load."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.external import External
from cascadia.domain.workload import Floats
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.routing.dominance import non_dominated
from cascadia.planner.search import elsewhere
from cascadia.planner.search.context import Search

Ints = NDArray[np.int64]

MOST = 40
WORK_DIGITS = 4

LOWER_UNIT = 1e-6
"""Bounds on quality that differ by less are alike."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Indices of routings, by falling `work`: the share that each sends its fullest stage of what that sustains, at the
    trace's mean rate, APIs' limits among what sustains; of equal ones by falling `total`, that of all GPUs. A gear with
    less work carries more requests. `usd` an hour is what APIs charge, where cost is the goal; else 0.
    """

    routings: Ints
    work: Floats
    total: Floats
    usd: Floats

    def __len__(self) -> int:
        return len(self.routings)

    def take(self, chosen: NDArray[np.bool_]) -> "Candidates":
        return Candidates(self.routings[chosen], self.work[chosen], self.total[chosen], self.usd[chosen])


def candidates(search: Search, deployment: Deployment, floor: float, calmest: float) -> Candidates:
    """Candidates, at most about `MOST`, none whose lower bound on quality is below `floor`.

    `calmest` is the lowest level's part of the mean rate: what is overloaded even then is no gear.
    """
    routings = search.routings
    work, total = _work(search, deployment)
    fit = _served(search, deployment) & (routings.lower >= floor) & (work * calmest <= 1.0)
    at = np.flatnonzero(fit)
    if not len(at):
        return Candidates(at, work[at], total[at], total[at])
    ranks = np.rint(routings.lower[at] / LOWER_UNIT).astype(np.int64)
    spent, values = [work, total], [routings.lower, np.log(np.maximum(work, 1e-9))]
    if priced := search.problem.objective.goal == "cost" and elsewhere.charges(search.problem):
        about_usd = elsewhere.about_usd_per_hour(search, np.arange(len(routings)))
        spent, values = [*spent, about_usd], [*values, about_usd]
    kept = at[non_dominated(np.column_stack([of_all[at] for of_all in spent]), ranks)]
    own = deployment.routing
    chosen = _spread(kept, [of_all[kept] for of_all in values])
    if fit[own] and own not in chosen:
        chosen = np.append(chosen, own)
    work = np.round(work, WORK_DIGITS)
    chosen = chosen[np.lexsort((-total[chosen], -work[chosen]))]
    usd = [elsewhere.usd_per_hour(search, k) if priced else 0.0 for k in chosen.tolist()]
    return Candidates(chosen, work[chosen], total[chosen], np.array(usd))


def lightest(search: Search, deployment: Deployment, mean: float, most: int) -> Ints:
    """Routings with the least work, at most `most`, whose mean quality is at least `mean`."""
    work, total = _work(search, deployment)
    at = np.flatnonzero(_served(search, deployment) & (search.routings.mean >= mean))
    return at[np.lexsort((total[at], work[at]))][:most]


def carried_rps(search: Search, deployment: Deployment, floor: float) -> float:
    """Requests a second that the lightest routing sustains whose lower bound on quality is at least `floor`; 0:
    there is none. Infinite where that asks APIs without a limit alone.
    """
    work, _ = _work(search, deployment)
    fit = _served(search, deployment) & (search.routings.lower >= floor)
    if not fit.any():
        return 0.0
    least = float(work[fit].min())
    return search.problem.workload.rate_rps / least if least > 0 else inf


def _served(search: Search, deployment: Deployment) -> NDArray[np.bool_]:
    """Marks routings that ask only what has replicas, or is elsewhere. A gear is one routing, so mixtures are none."""
    routings = search.routings
    here = np.array([bool(deployment.mix(s)) or api is not None for s, api in enumerate(_apis(search))])
    fit: NDArray[np.bool_] = ~(routings.deployed & ~here).any(axis=1)
    if search.self_hosted_judge and not deployment.mix(JUDGE):
        fit &= ~routings.judged(np.arange(len(routings))).any(axis=1)
    if routings.mixed is not None:
        fit &= routings.mixed.share <= 0
    return fit


def _work(search: Search, deployment: Deployment) -> tuple[Floats, Floats]:
    """Work of each routing: the share of capacity that its fullest stage is sent, and that of all GPUs.

    From what the deployment's own routing takes, in proportion to how many requests come to a stage; of APIs, from
    their limits.
    """
    routings, own = search.routings, deployment.routing
    every = np.arange(len(routings))
    shares = [
        60 * search.problem.workload.rate_rps * routings.reached[:, s] / api.requests_per_minute
        for s, api in enumerate(_apis(search))
        if api is not None and api.requests_per_minute
    ]
    fullest = np.max(shares, axis=0, initial=0.0) if shares else np.zeros(len(routings))
    on_gpus = {s for s, mix in deployment.mixes if mix}
    if not on_gpus:
        return fullest, fullest
    of_all = search.capacities.shares(search.problem, deployment, search.decisions(own))
    taken = {s: share for s, share in of_all.items() if s in on_gpus}
    sent = {s: routings.reached[:, s] for s in taken if s != JUDGE}
    if JUDGE in taken:
        sent[JUDGE] = routings.verdicts(every).sum(axis=1)
    gpus = {s: sum(r.shape.gpus * r.count for r in deployment.mix(s)) for s in taken}
    here = np.stack([taken[s] * sent[s] / max(float(sent[s][own]), 1e-12) for s in taken])
    each = np.array([gpus[s] for s in taken], float)
    return np.maximum(here.max(axis=0), fullest), each @ here / each.sum()


def _apis(search: Search) -> list[External | None]:
    return [stage.external for stage in search.problem.stages]


def _spread(kept: Ints, values: Sequence[Floats]) -> Ints:
    """Candidates, at most `MOST`, evenly by each of `values` in turn; the ends of all stay."""
    if len(kept) <= MOST:
        return kept
    chosen: set[int] = set()
    for value in values:
        for target in np.linspace(value.min(), value.max(), MOST // len(values)):
            chosen.add(int(np.abs(value - target).argmin()))
    return kept[sorted(chosen)]

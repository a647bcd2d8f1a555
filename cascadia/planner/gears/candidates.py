"""Routings that may be gears of a deployment: those that its replicas can serve, spread by quality and load."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.workload import Floats
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.routing.dominance import non_dominated
from cascadia.planner.search.context import Search

Ints = NDArray[np.int64]

MOST = 40
WORK_DIGITS = 4

LOWER_UNIT = 1e-6
"""Bounds on quality that differ by less are alike."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Indices of routings, by falling `work`: the share that each sends its fullest stage of what that sustains, at the
    trace's mean rate; of equal ones by falling `total`, that of all GPUs. A gear with less work carries more requests.
    """

    routings: Ints
    work: Floats
    total: Floats

    def __len__(self) -> int:
        return len(self.routings)

    def take(self, chosen: NDArray[np.bool_]) -> "Candidates":
        return Candidates(self.routings[chosen], self.work[chosen], self.total[chosen])


def candidates(search: Search, deployment: Deployment, floor: float, calmest: float) -> Candidates:
    """Candidates, at most about `MOST`, none whose lower bound on quality is below `floor`.

    `calmest` is the lowest level's part of the mean rate: what is overloaded even then is no gear.
    """
    routings = search.routings
    work, total = _work(search, deployment)
    fit = _served(search, deployment) & (routings.lower >= floor) & (work * calmest <= 1.0)
    at = np.flatnonzero(fit)
    if not len(at):
        return Candidates(at, work[at], total[at])
    ranks = np.rint(routings.lower[at] / LOWER_UNIT).astype(np.int64)
    kept = at[non_dominated(np.column_stack([work[at], total[at]]), ranks)]
    own = deployment.routing
    chosen = _spread(kept, routings.lower[kept], work[kept])
    if fit[own] and own not in chosen:
        chosen = np.append(chosen, own)
    work = np.round(work, WORK_DIGITS)
    chosen = chosen[np.lexsort((-total[chosen], -work[chosen]))]
    return Candidates(chosen, work[chosen], total[chosen])


def lightest(search: Search, deployment: Deployment, mean: float, most: int) -> Ints:
    """Routings with the least work, at most `most`, whose mean quality is at least `mean`."""
    work, total = _work(search, deployment)
    at = np.flatnonzero(_served(search, deployment) & (search.routings.mean >= mean))
    return at[np.lexsort((total[at], work[at]))][:most]


def carried_rps(search: Search, deployment: Deployment, floor: float) -> float:
    """Requests a second that the lightest routing sustains whose lower bound on quality is at least `floor`; 0:
    there is none.
    """
    work, _ = _work(search, deployment)
    fit = _served(search, deployment) & (search.routings.lower >= floor)
    return float(search.problem.workload.rate_rps / max(work[fit].min(), 1e-9)) if fit.any() else 0.0


def _served(search: Search, deployment: Deployment) -> NDArray[np.bool_]:
    """Marks routings that ask only what has replicas. A gear is one routing, so mixtures are none."""
    routings = search.routings
    here = np.array([bool(deployment.mix(s)) for s in range(routings.deployed.shape[1])])
    fit: NDArray[np.bool_] = ~(routings.deployed & ~here).any(axis=1)
    if search.self_hosted_judge and not deployment.mix(JUDGE):
        fit &= ~routings.judged(np.arange(len(routings))).any(axis=1)
    if routings.mixed is not None:
        fit &= routings.mixed.share <= 0
    return fit


def _work(search: Search, deployment: Deployment) -> tuple[Floats, Floats]:
    """Work of each routing: the share of capacity that its fullest stage is sent, and that of all GPUs.

    From what the deployment's own routing takes, in proportion to how many requests come to a stage.
    """
    routings, own = search.routings, deployment.routing
    every = np.arange(len(routings))
    taken = search.capacities.shares(search.problem, deployment, search.decisions(own))
    sent = {s: routings.reached[:, s] for s in taken if s != JUDGE}
    if JUDGE in taken:
        sent[JUDGE] = routings.verdicts(every).sum(axis=1)
    gpus = {s: sum(r.shape.gpus * r.count for r in deployment.mix(s)) for s in taken}
    shares = np.stack([taken[s] * sent[s] / max(float(sent[s][own]), 1e-12) for s in taken])
    of_all = np.array([gpus[s] for s in taken], float)
    return shares.max(axis=0), of_all @ shares / of_all.sum()


def _spread(kept: Ints, lower: Floats, work: Floats) -> Ints:
    """Candidates, at most `MOST`, evenly by quality and, in turn, by work; the ends of both stay."""
    if len(kept) <= MOST:
        return kept
    chosen: set[int] = set()
    for value in (lower, np.log(np.maximum(work, 1e-9))):
        for target in np.linspace(value.min(), value.max(), MOST // 2):
            chosen.add(int(np.abs(value - target).argmin()))
    return kept[sorted(chosen)]

"""A pre-router as a baseline: one of two models, chosen from the question alone (RouteLLM; Cascadia app. I).

No answer is judged, so there is no judge, and no request runs twice; but the router must guess. Its guess is made from
the table's `foreseen` quality; without, of the small model's score mixed with noise so that their rank correlation is
`SKILL`: about what BERT routers reach on chat questions (an assumption). Its threshold is held to the same lower
confidence bound; its deployment is the best of the integer program's and its neighbours.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.problem import Problem
from cascadia.domain.quality import QualityTable
from cascadia.planner.allocation import allocate
from cascadia.planner.baselines import Entry, nothing
from cascadia.planner.demand import Demand
from cascadia.planner.deployment import Deployment, deployment
from cascadia.planner.frontier import all_routings
from cascadia.planner.guarantee import with_bounds
from cascadia.planner.loads import stage_load
from cascadia.planner.options import Mix, options
from cascadia.planner.refine import Candidate
from cascadia.planner.search import Search
from cascadia.planner.simulation import latency_by_request, quantile_s

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SKILL = 0.35
SPLITS = 6
"""Thresholds tried, from the one with the least load on the large model upward."""
CHOICES = 12


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """Which requests go to the larger of the two stages, and the quality that follows."""

    stages: tuple[int, int]
    to_large: Bools
    mean: float
    lower: float


def prerouter(search: Search) -> Entry:
    """The best split over all pairs of stages."""
    problem = search.problem
    bar = problem.objective.quality_min or 0.0
    best: tuple[float, Deployment, _Split, Floats] | None = None
    reached_bar = False
    for split in _splits(problem, bar):
        reached_bar = True
        found = _deployed(search, split)
        if found is not None and (best is None or found[0] < best[0]):
            best = (found[0], found[1], split, found[2])
    if best is None:
        return nothing("pre-router", "the traffic is not sustained" if reached_bar else "misses the bar")
    latency, chosen, split, _ = best
    candidate = Candidate(chosen, latency, split.lower)
    return Entry("pre-router", candidate, None, split.mean, split.lower, 0.0)


def guess(problem: Problem, stage: int) -> Floats:
    """What the router believes of the stage's answer to each prompt (m), 0-100."""
    if problem.quality.foreseen is not None:
        foreseen: Floats = problem.quality.foreseen[stage]
        return foreseen
    scores = problem.quality.score[stage]
    rng = np.random.default_rng(problem.seed + 2)
    ranks = np.argsort(np.argsort(scores + 1e-6 * rng.random(len(scores)))) / max(len(scores) - 1, 1)
    centred = (ranks - 0.5) / 0.2887
    mixed = SKILL * centred + np.sqrt(1 - SKILL**2) * rng.standard_normal(len(scores))
    order = np.argsort(np.argsort(mixed))
    return np.floor(order / len(scores) * 50) * 2


def _splits(problem: Problem, bar: float) -> list[_Split]:
    found = []
    table = problem.quality
    for small in range(len(table.stages)):
        for large in range(small + 1, len(table.stages)):
            pair = [small, large]
            believed = guess(problem, small)
            two = QualityTable(
                table.prompt_ids,
                tuple(table.stages[s] for s in pair),
                np.stack([believed, table.score[large]]),
                table.quality[pair],
                table.input_tokens[pair],
                table.output_tokens[pair],
            )
            routings, _ = with_bounds(two, all_routings(two), problem.confidence, problem.seed)
            both = routings.take(routings.deployed.all(axis=1) & (routings.lower >= bar))
            order = np.argsort(both.reached[:, 1], kind="stable")
            spread = np.unique(np.linspace(0, max(len(order) - 1, 0), SPLITS).astype(int))[: len(order)]
            for k in order[spread]:
                to_large = (believed < both.thresholds[k, 0])[problem.workload.row]
                found.append(_Split((small, large), to_large, float(both.mean[k]), float(both.lower[k])))
    return found


def _deployed(search: Search, split: _Split) -> tuple[float, Deployment, Floats] | None:
    """The pair's best deployment by simulated end-to-end quantile: latencies of all requests as well."""
    problem = search.problem
    masks = {split.stages[0]: ~split.to_large, split.stages[1]: split.to_large}
    demands = [search.stage_demand(s, mask, gated=False) for s, mask in masks.items() if mask.any()]
    start = allocate(demands, problem.cluster)
    if start is None:
        return None
    menus = [_menu(d, search, start.replicas[d.stage]) for d in demands]
    rows = [
        [
            latency_by_request(stage_load(problem, d.stage, masks[d.stage]), mix, len(split.to_large))
            for mix in menu
        ]
        for d, menu in zip(demands, menus, strict=True)
    ]
    best: tuple[float, Deployment, Floats] | None = None
    for choice in np.ndindex(*(len(menu) for menu in menus)):
        mixes = {d.stage: menu[i] for d, menu, i in zip(demands, menus, choice, strict=True)}
        candidate = deployment(0, mixes)
        if not candidate.fits(problem.cluster):
            continue
        latency = sum((row[i] for row, i in zip(rows, choice, strict=True)), np.zeros(len(split.to_large)))
        at = quantile_s(latency, search.quantile)
        if best is None or at < best[0]:
            best = (at, candidate, latency)
    return best


def _menu(demand: Demand, search: Search, start: Mix) -> list[Mix]:
    return [start, *(o.replicas for o in options(demand, search.problem.cluster, at_most=CHOICES))]

"""Refusal where what the budget buys carries too little, and more money would buy enough."""

from dataclasses import replace
from math import ceil, floor, log10

import numpy as np

from cascadia.domain.cluster import Cluster
from cascadia.domain.errors import Infeasible, OutOfTime
from cascadia.planner.infeasible.nearest import Planning, nearest_of
from cascadia.planner.refinement.nearly_full import nearly_full
from cascadia.planner.search.context import Search, allowed, start_search
from cascadia.planner.search.throughput import max_rate_rps

STEP = 1.1
"""Budgets are asked for in such steps, up to the price of all nodes on offer."""


def budget_too_small(search: Search, planning: Planning) -> Infeasible | None:
    """The refusal that names a budget with which there is a plan; None where there is no budget, or none was found."""
    if (enough := enough_usd(search, planning)) is None:
        return None
    problem = search.problem
    assert problem.offered is not None
    budget_usd, bar = problem.offered.budget_usd_per_hour, problem.objective.quality_min
    return Infeasible(
        f"cluster.budget_usd_per_hour {budget_usd:g} buys too few GPUs for {problem.workload.rate_rps:.3g} requests/s"
        + (f" at quality >= {bar:g}" if bar else ""),
        f"${enough:g}/h would do",
    )


def with_budget_told(search: Search, why: Infeasible, planning: Planning) -> Infeasible:
    """`why` with a budget that would do beside what else would, where there is one and time to find it."""
    try:
        enough = enough_usd(search, planning)
    except OutOfTime:
        enough = None
    return (
        why
        if enough is None
        else Infeasible(why.constraint, f"{why.nearest}; a budget of ${enough:g}/h would do")
    )


def enough_usd(search: Search, planning: Planning) -> float | None:
    """Dollars above the budget with which there is a plan; None where there is no budget, or none was found."""
    problem = search.problem
    offered, rate = problem.offered, problem.workload.rate_rps
    if offered is None or (budget_usd := offered.budget_usd_per_hour) is None:
        return None
    budgets = _larger(budget_usd, _all_usd(offered))
    if not budgets:
        return None
    carried = max_rate_rps(nearly_full(search), np.flatnonzero(allowed(search)))
    hoped_usd = budget_usd * rate / carried if carried > 0 else np.inf
    guess = next((at for at, usd in enumerate(budgets) if usd >= hoped_usd), len(budgets) - 1)

    def asked(at: int) -> Search:
        planning.progress(f"is there a plan for ${budgets[at]:g}/h?")
        richer = replace(problem, cluster=replace(offered, budget_usd_per_hour=budgets[at]))
        return start_search(planning.rents(richer), search.routings, search.threads, search.deadline)

    found = nearest_of(search, budgets, guess, asked, planning)
    return found.kept if problem.objective.bounds else found.sustained


def _all_usd(cluster: Cluster) -> float:
    """Dollars an hour of all that can be rented."""
    return sum(-(-pool.gpus // pool.unit_gpus) * pool.usd_per_unit_hour for pool in cluster.pools)


def _larger(budget_usd: float, most_usd: float) -> list[float]:
    """Budgets above this one, to three digits, up to what buys everything."""
    found, usd = [], max(budget_usd, 0.01)
    while usd < most_usd:
        usd = _rounded_up(usd * STEP)
        found.append(usd)
    return found


def _rounded_up(usd: float) -> float:
    digit = 10.0 ** (floor(log10(usd)) - 2)
    return float(f"{ceil(usd / digit) * digit:.6g}")

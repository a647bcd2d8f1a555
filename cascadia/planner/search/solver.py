"""Choice of the integer program that solves the deployment of a routing."""

from typing import Literal

from cascadia.planner.allocation.columns import allocate
from cascadia.planner.allocation.demand import Allocation, Demand
from cascadia.planner.allocation.paper import allocate_paper
from cascadia.planner.search.bilevel import Solver
from cascadia.planner.search.context import Search

Formulation = Literal["columns", "paper", "kairos"]
"""`kairos` chooses the nodes beforehand (`pool/kairos_pick.py`); what stands on them is as in `columns`."""


SOLVER_S, LEAST_S = 10.0, 0.1
"""Seconds that one call may take, and at the search's deadline: what is not proven by then is called incumbent."""


def solver(search: Search, formulation: Formulation, *, prove: bool = False) -> Solver:
    """The deployment solver of the bi-level loop; only the plan's own allocation needs to be proven."""
    cluster, verdict_s = search.problem.cluster, search.verdict_s

    def solve(demands: list[Demand]) -> Allocation | None:
        time_limit_s = min(SOLVER_S, max(search.deadline.left_s, LEAST_S))
        if formulation == "paper":
            return allocate_paper(demands, cluster, verdict_s=verdict_s, time_limit_s=time_limit_s)
        return allocate(demands, cluster, verdict_s=verdict_s, time_limit_s=time_limit_s, prove=prove)

    return solve

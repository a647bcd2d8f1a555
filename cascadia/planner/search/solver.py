"""Choice of the integer program that solves the deployment of a routing."""

from typing import Literal

from cascadia.planner.allocation.columns import allocate
from cascadia.planner.allocation.demand import Allocation, Demand
from cascadia.planner.allocation.paper import allocate_paper
from cascadia.planner.search.bilevel import Solver
from cascadia.planner.search.context import Search

Formulation = Literal["columns", "paper", "kairos"]
"""`kairos` chooses the nodes beforehand (`pool/kairos_pick.py`); what stands on them is as in `columns`."""


def solver(search: Search, formulation: Formulation, *, prove: bool = False) -> Solver:
    """The deployment solver of the bi-level loop; only the plan's own allocation needs to be proven."""
    cluster, verdict_s = search.problem.cluster, search.verdict_s

    def solve(demands: list[Demand]) -> Allocation | None:
        if formulation == "paper":
            return allocate_paper(demands, cluster, verdict_s=verdict_s, deadline=search.deadline)
        return allocate(demands, cluster, verdict_s=verdict_s, deadline=search.deadline, prove=prove)

    return solve

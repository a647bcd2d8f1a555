"""HiGHS on a program that PuLP states: whether it has a solution, and what is proven of that."""

from dataclasses import dataclass

import highspy
import pulp

from cascadia.domain.deadline import Deadline

MOST_S, LEAST_S = 10.0, 0.1
"""Seconds that one program may take, and at the search's deadline: what is not proven by then is called incumbent."""


@dataclass(frozen=True, slots=True)
class Solved:
    """`found`: the program's variables have values. `proven`: those are optimal, or there are none, beyond doubt.

    `bound` is the solver's dual bound on the objective. A time limit is never a proof.
    """

    found: bool
    proven: bool
    bound: float = 0.0


def solve(program: pulp.LpProblem, time_limit_s: float) -> Solved:
    """Gives the program's variables their values. Programs here are bounded: costs and variables are not negative."""
    program.solve(pulp.HiGHS(msg=False, threads=1, timeLimit=time_limit_s, gapRel=0.0))
    if program.status == pulp.LpStatusInfeasible:
        return Solved(found=False, proven=True)
    info = program.solverModel.getInfo()
    # PuLP calls whatever a time limit leaves a feasible point; HiGHS itself knows whether it is one.
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Solved(found=False, proven=False)
    return Solved(True, program.sol_status == pulp.LpSolutionOptimal, info.mip_dual_bound)


def solve_by(program: pulp.LpProblem, deadline: Deadline) -> Solved:
    """As `solve`, by the deadline of the search that asks, or as soon after it as can be."""
    return solve(program, min(MOST_S, max(deadline.left_s, LEAST_S)))


def whole(variable: pulp.LpVariable) -> int:
    """The value of an integer variable, which the solver gives within its tolerance."""
    return int(round(variable.varValue, 0))

"""A ladder of solved policies over the load (RAMSIS section 6)."""

from cascadia.domain.policy import Policies, Policy
from cascadia.planner.policies.tables import Group
from cascadia.policy.arrivals import Arrivals
from cascadia.policy.problem import problem
from cascadia.policy.solve import solve
from cascadia.policy.variable import SLACK_STEPS, solve_variable, variable_problem

APART = 1.0
"""Neighbours of a ladder differ by less than so many points of expected accuracy."""
FIRST_LEVELS = 5
NEAREST = 1.01
"""Loads that differ by a smaller factor are one."""
COARSE_APART, COARSE_NEAREST = 2.0, 1.1
"""The same of variable batching, a policy of which takes seconds."""


def solved(group: Group, arrivals: Arrivals, late_max: float | None, slack_steps: int | None = 100) -> Policy:
    """The policy of one load."""
    posed = problem(
        group.models,
        arrivals,
        slo_s=group.slo_s,
        workers=group.workers,
        slack_steps=slack_steps,
        late=group.late,
    )
    return solve(posed, late_max).policy()


def solved_variable(group: Group, arrivals: Arrivals, late_max: float | None) -> Policy:
    """The same where a batch may be any part of the queue. Raises ValueError where it is not solved for."""
    posed = problem(
        group.models,
        arrivals,
        slo_s=group.slo_s,
        workers=group.workers,
        slack_steps=SLACK_STEPS,
        late=group.late,
    )
    return solve_variable(variable_problem(posed), late_max).policy()


def mdp_ladder(
    group: Group,
    arrivals: Arrivals,
    *,
    from_rps: float,
    to_rps: float,
    late_max: float | None = 0.01,
    slack_steps: int | None = 100,
    kind: str = "mdp",
    variable: bool = False,
) -> Policies:
    """Policies for loads from `from_rps` to `to_rps`, between which more are put until neighbours are alike; with
    `variable` batching, in its own steps of slack."""

    def at(rate_rps: float) -> Policy:
        if variable:
            return solved_variable(group, arrivals.at(rate_rps), late_max)
        return solved(group, arrivals.at(rate_rps), late_max, slack_steps)

    # Beyond what they carry at all, one more policy says the same as the next.
    to_rps = min(to_rps, max(group.capacity_rps, from_rps))
    apart, nearest = (COARSE_APART, COARSE_NEAREST) if variable else (APART, NEAREST)
    step = (to_rps - from_rps) / (FIRST_LEVELS - 1)
    ladder = [at(from_rps + step * i) for i in range(FIRST_LEVELS)] if step > 0 else [at(to_rps)]
    i = 0
    while i + 1 < len(ladder):
        low, high = ladder[i], ladder[i + 1]
        assert low.expected is not None
        assert high.expected is not None
        alike = abs(low.expected.accuracy - high.expected.accuracy) < apart
        if alike or high.up_to / low.up_to < nearest:
            i += 1
        else:
            ladder.insert(i + 1, at((low.up_to + high.up_to) / 2))
    return group.policies(ladder, kind, queue="worker")

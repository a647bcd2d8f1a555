"""A ladder of solved policies over the load (RAMSIS section 6)."""

from cascadia.domain.policy import Policies, Policy
from cascadia.planner.policies.tables import Group
from cascadia.policy.arrivals import Arrivals
from cascadia.policy.problem import problem
from cascadia.policy.solve import solve

APART = 1.0
"""Neighbours of a ladder differ by less than so many points of expected accuracy."""
FIRST_LEVELS = 5
NEAREST = 1.01
"""Loads that differ by a smaller factor are one."""


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


def mdp_ladder(
    group: Group,
    arrivals: Arrivals,
    *,
    from_rps: float,
    to_rps: float,
    late_max: float | None = 0.01,
    slack_steps: int | None = 100,
    kind: str = "mdp",
) -> Policies:
    """Policies for loads from `from_rps` to `to_rps`, between which more are put until neighbours are alike."""

    def at(rate_rps: float) -> Policy:
        return solved(group, arrivals.at(rate_rps), late_max, slack_steps)

    # Beyond what they carry at all, one more policy says the same as the next.
    to_rps = min(to_rps, max(group.capacity_rps, from_rps))
    step = (to_rps - from_rps) / (FIRST_LEVELS - 1)
    ladder = [at(from_rps + step * i) for i in range(FIRST_LEVELS)] if step > 0 else [at(to_rps)]
    i = 0
    while i + 1 < len(ladder):
        low, high = ladder[i], ladder[i + 1]
        assert low.expected is not None
        assert high.expected is not None
        alike = abs(low.expected.accuracy - high.expected.accuracy) < APART
        if alike or high.up_to / low.up_to < NEAREST:
            i += 1
        else:
            ladder.insert(i + 1, at((low.up_to + high.up_to) / 2))
    return group.policies(ladder, kind, queue="worker")

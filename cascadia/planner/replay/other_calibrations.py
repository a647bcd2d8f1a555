"""Stages of a written plan whose times rest on other constants by now than when it was planned."""

from collections.abc import Iterator

from cascadia.domain.plan import Plan, PoolCalibration
from cascadia.domain.problem import Problem
from cascadia.planner.account.calibrations import standing_on
from cascadia.planner.allocation.demand import JUDGE


def other_calibrations(plan: Plan, problem: Problem) -> Iterator[str]:
    """A note, where there are such stages. Plans older than version 3 say nothing of their calibrations."""
    at = {"judge": JUDGE} | {stage.name: number for number, stage in enumerate(plan.stages)}
    others = [
        name
        for name, told in plan.calibrations.items()
        if name in at and any(_differs(problem, at[name], then) for then in told.pools)
    ]
    if others:
        yield (
            f"the calibrations of {', '.join(others)} are not those that this was planned with, so times differ from"
            " the plan's; plan anew for a plan that rests on those of now"
        )


def _differs(problem: Problem, stage: int, then: PoolCalibration) -> bool:
    if then.pool not in {pool.name for pool in problem.cluster.pools}:
        return False
    now = standing_on(problem, stage, then.pool)
    errors = round(now.error_tpot, 4), round(now.error_ttft, 4)
    return (then.calibration, then.error_tpot, then.error_ttft) != (now.calibration.name, *errors)

"""Error range of a plan's latency by its calibrations' errors: the same simulation with all times at both ends
of them.

A calibration that is off by e on average, |predicted / measured - 1|, has measured times between 1 / (1 + e) and
1 / (1 - e) of its own. All stages are taken to be off in the same direction at once, which is the worst that averages
allow; single shapes and lengths can be off by more.
"""

from collections.abc import Iterator
from dataclasses import replace

from cascadia.domain.plan import ErrorRange
from cascadia.domain.problem import Problem
from cascadia.planner.account.calibrations import standing_on
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.simulation import Simulator, quantile_s
from cascadia.planner.routing.routings import Decisions
from cascadia.planner.stability.certificate import certify
from cascadia_sim.iteration.scaled_timing import scaled

MOST = 0.9
"""An error counts at most so much: a calibration that is wholly wrong leaves no end to simulate."""


def error_range(
    problem: Problem,
    simulator: Simulator,
    deployment: Deployment,
    decisions: Decisions,
    predicted_s: float,
    *,
    carries: float = 1.0,
) -> ErrorRange:
    """Error range of the objective's quantile, which without errors is `predicted_s`: it always lies within.

    The slow end is held to the certificate of stability, too. Times that are all f times as long are a clock that
    goes slower, under f times the rate: who is known to carry that many times the rate need not be asked.
    """
    ends = {sign: erring(problem, deployment, sign) for sign in (-1, 1)}
    fast_s, slow_s = (
        quantile_s(simulator.latency_s(simulator.run(ends[sign], decisions)), problem.objective.quantile)
        for sign in (-1, 1)
    )
    slowest = 1 / (1 - min(max(_errors(problem, deployment), default=0.0), MOST))
    holds = carries >= slowest or certify(simulator, ends[1], decisions, {}).holds
    return ErrorRange(min(fast_s, predicted_s), max(slow_s, predicted_s), holds)


def _errors(problem: Problem, deployment: Deployment) -> Iterator[float]:
    for stage, mix in deployment.mixes:
        for r in mix:
            s = standing_on(problem, stage, r.shape.pool)
            yield max(s.error_tpot, s.error_ttft)


def erring(problem: Problem, deployment: Deployment, sign: int) -> Deployment:
    """`deployment` with all times at the slow (1) or the fast (-1) end of their errors; 0 leaves them."""
    mixes = []
    for stage, mix in deployment.mixes:
        moved = []
        for r in mix:
            s = standing_on(problem, stage, r.shape.pool)
            factors = [1 / (1 - sign * min(e, MOST)) for e in (s.error_tpot, s.error_ttft)]
            moved.append(replace(r, shape=replace(r.shape, timing=scaled(r.shape.timing, *factors))))
        mixes.append((stage, tuple(moved)))
    return replace(deployment, mixes=tuple(mixes))

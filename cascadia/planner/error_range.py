"""What the calibrations' errors do to a plan's latency: the same simulation with all times at both ends of them.

A calibration that is off by e on average, |predicted / measured - 1|, has measured times between 1 / (1 + e) and
1 / (1 - e) of its own. All stages are taken to be off in the same direction at once, which is the worst that averages
allow; single shapes and lengths can be off by more.
"""

from dataclasses import replace

import numpy as np

from cascadia.domain.plan import ErrorRange
from cascadia.domain.problem import Problem
from cascadia.planner.calibrations import standing_on
from cascadia.planner.deployment import Deployment
from cascadia.planner.routings import Decisions
from cascadia.planner.simulation import Simulator, quantile_s
from cascadia_sim.timing import Ints, ReplicaTiming

MOST = 0.9
"""An error counts at most so much: a calibration that is wholly wrong leaves no end to simulate."""


def error_range(
    problem: Problem, simulator: Simulator, deployment: Deployment, decisions: Decisions, predicted_s: float
) -> ErrorRange:
    """Of the objective's quantile, which without errors is `predicted_s`: it always lies within."""

    def at(sign: int) -> float:
        run = simulator.run(erring(problem, deployment, sign), decisions)
        return quantile_s(simulator.latency_s(run), problem.objective.quantile)

    return ErrorRange(min(at(-1), predicted_s), max(at(1), predicted_s))


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


def scaled(timing: ReplicaTiming, decoding: float, prefill: float) -> ReplicaTiming:
    """Iterations `decoding` times as long, and what only prefills add to them `prefill` times.

    That is attention among a prompt's own tokens, and all tokens of an iteration beyond its most sequences.
    """
    most = min(timing.max_num_seqs, len(timing.token_ps) - 1)
    head, beyond = timing.token_ps[: most + 1], timing.token_ps[most + 1 :] - timing.token_ps[most]
    steps = _times(head, decoding)
    return replace(
        timing,
        token_ps=np.concatenate([steps, steps[-1] + _times(beyond, prefill)]),
        sequence_ps=_times(timing.sequence_ps, decoding),
        context_ps=round(timing.context_ps * decoding),
        pair_ps=timing.pair_ps * prefill,
    )


def _times(picoseconds: Ints, factor: float) -> Ints:
    """Exact at a factor of 1: int64 up to 2^53 ps (two hours) are whole as floats too."""
    times: Ints = np.rint(picoseconds * factor).astype(np.int64)
    return times

"""Delay of an answer at its client behind the engine: the time that requests take outside of iterations.

A request is received, tokenised and queued before an engine can start it, and tokens are handed over, put into words
and sent while the next ones are made. Measured at clients (docs/benchmarks/fidelity.md), this is a fixed time and some
decode steps; the first token and the last are late by the same. No engine is occupied by it.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from cascadia_sim.engine.arrays import Floats
from cascadia_sim.iteration.timing import TIMINGS_KEPT, Ints, ReplicaTiming


def delays_ps(
    timings: Sequence[ReplicaTiming],
    replica: Ints,
    first_token_ps: Ints,
    finish_ps: Ints,
    output_tokens: Ints,
) -> Ints:
    """Delay of each request [n], which ran on `timings[replica]`; 0 where the times are not known (-1)."""
    if not any(t.client_ps or t.client_steps for t in timings):
        return np.zeros_like(finish_ps)
    alike = all(t is timings[0] for t in timings)
    fixed, steps, alone = constants(timings[:1])[0] if alike else constants(timings)[replica].T
    further = output_tokens - 1
    pace = np.where(further > 0, (finish_ps - first_token_ps) // np.maximum(further, 1), alone)
    late = np.asarray(fixed).astype(np.int64) + np.rint(steps * pace).astype(np.int64)
    return np.where(finish_ps < 0, 0, late)


def constants(timings: Sequence[ReplicaTiming]) -> Floats:
    """Constants by replica [R, 3]: the fixed time, the decode steps, and what one of these takes alone, in ps."""
    return np.array([_told(t) for t in timings], np.float64).reshape(-1, 3)


@lru_cache(TIMINGS_KEPT)
def _told(timing: ReplicaTiming) -> tuple[int, float, int]:
    return timing.client_ps, timing.client_steps, int(timing.token_ps[1] + timing.sequence_ps[1])

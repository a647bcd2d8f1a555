"""First coefficients of a latency model: those of a simulated replica that is alone with the workload's lengths.

A line through four loads, from a fifth of what the replica sustains to nearly all of it. So the first request of a plan
is told as its simulation has it, and what is learnt from answers goes on from there.
"""

import numpy as np
from numpy.typing import NDArray

from cascadia.dispatch.latency_model import SCALE, TOKENS_A_REQUEST, Coefficients
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.iteration.timing import PS_PER_S, Ints, ReplicaTiming

Floats = NDArray[np.float64]

LOADS = (0.2, 0.5, 0.8, 0.95)
REQUESTS = 1500
LEAST = 1e-6


def seed_of(timing: ReplicaTiming, input_tokens: Ints, output_tokens: Ints) -> Coefficients:
    """Coefficients on requests of such lengths, of which the first `REQUESTS` are looked at."""
    read, wrote = (np.ascontiguousarray(column[:REQUESTS]) for column in (input_tokens, output_tokens))
    none = np.zeros(read.size, np.int64)
    # The same gaps at each load, so that the line is through loads and not through luck.
    gaps = np.random.default_rng(0).exponential(size=read.size)
    all_ps = simulate_replica(timing, none, read, wrote, none).finish_ps
    # The last tenth is left out: a batch that empties is slower than what the replica sustains.
    alone_s = float(np.sort(all_ps)[int(0.9 * read.size)]) / PS_PER_S / max(1, int(0.9 * read.size))
    rows, seconds = [], []
    for load in LOADS:
        arrival_ps = np.rint(np.cumsum(gaps) * alone_s / load * PS_PER_S).astype(np.int64)
        finish_ps = simulate_replica(timing, arrival_ps, read, wrote, none).finish_ps
        in_hand = _in_hand(arrival_ps, finish_ps, read + wrote)
        rows.append(np.stack([np.ones(read.size), read, wrote, wrote * in_hand], axis=1))
        seconds.append((finish_ps - arrival_ps) / PS_PER_S)
    return _line(np.concatenate(rows), np.concatenate(seconds))


def _in_hand(arrival_ps: Ints, finish_ps: Ints, tokens: Ints) -> Floats:
    """Load that each request [n] found (`load_of`)."""
    order = np.argsort(finish_ps)
    ended = np.searchsorted(finish_ps[order], arrival_ps, side="right")
    came = np.arange(arrival_ps.size)
    done = np.concatenate([[0], np.cumsum(tokens[order])])[ended]
    running, outstanding = came - ended, np.concatenate([[0], np.cumsum(tokens)])[came] - done
    found: Floats = running + outstanding / TOKENS_A_REQUEST
    return found


def _line(rows: Floats, seconds: Floats) -> Coefficients:
    """Least squares of relative errors, none of the coefficients below zero: those that would be are left out."""
    x = rows * np.array(SCALE) / seconds[:, None]
    kept = np.ones(len(SCALE), bool)
    while True:
        found = np.zeros(len(SCALE))
        found[kept] = np.linalg.lstsq(x[:, kept], np.ones(len(x)), rcond=None)[0]
        if (found >= 0).all():
            return Coefficients(*(np.maximum(found, LEAST) * np.array(SCALE)).tolist())
        kept &= found > 0

"""Least time that a request takes of a replica, however it is batched: what bounds its throughput from above.

An iteration of t tokens, s of them one for each of s answers, takes token_ps[t] + sequence_ps[s] and what attention
costs (`ReplicaTiming`). Any line a + b t below token_ps, and any slope q below sequence_ps[s] / s, make the iterations
that N answers need take at least

    a x iterations + sum over answers of  b (read + wrote - 1) + q wrote + context_ps x contexts + pair_ps x pairs

and there are no fewer iterations than tokens decoded over the most that run at once, nor than contexts read over what
the cache holds. So each answer has a time of its own, and times add up. A pipeline does `lanes` iterations at once.
"""

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.tables.loads import Load
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming

Floats = NDArray[np.float64]

LINES = 48
"""So many slopes are tried."""


def least_s(timing: ReplicaTiming, load: Load) -> Floats:
    """Seconds [n] of one replica that each request of `load` takes at the least."""
    read = np.maximum(load.input_tokens - load.cached_tokens, 1).astype(np.float64)
    entire, wrote = load.input_tokens.astype(np.float64), load.output_tokens.astype(np.float64)
    decoded = np.maximum(wrote - 1, 0)
    contexts = decoded * entire + decoded * (decoded - 1) / 2
    pairs = read * entire - read * (read - 1) / 2
    sequences = np.arange(1, len(timing.sequence_ps))
    each_ps = float((timing.sequence_ps[1:] / sequences).min()) if len(sequences) else 0.0
    by_slots = decoded / timing.max_num_seqs
    by_cache = contexts / (timing.lanes * timing.kv_tokens)
    iterations = by_slots if by_slots.sum() >= by_cache.sum() else by_cache
    fixed_ps, token_ps = _line(timing, float(iterations.sum()), float((read + decoded).sum()))
    ps = fixed_ps * iterations + token_ps * (read + decoded) + each_ps * wrote
    ps += timing.context_ps * contexts + timing.pair_ps * pairs
    found: Floats = ps / timing.lanes / PS_PER_S
    return found


def _line(timing: ReplicaTiming, iterations: float, tokens: float) -> tuple[float, float]:
    """The line below `token_ps`, of some, under which so many iterations of so many tokens in all take the longest."""
    most = timing.max_num_batched_tokens + timing.max_num_seqs
    known = timing.token_ps[1:].astype(np.float64)
    at = np.arange(1, len(known) + 1, dtype=np.float64)
    if most > len(known) > 1:
        # Beyond its end the table goes on by its last difference.
        at = np.append(at, most)
        known = np.append(known, known[-1] + (most - len(known)) * (known[-1] - known[-2]))
    knots = np.unique(np.geomspace(1, len(at), LINES).astype(int)) - 1
    slopes = np.maximum(np.diff(known[knots]) / np.diff(at[knots]), 0.0)
    # Lowered until no entry of the table lies below: a bound must hold for each number of tokens.
    starts = [(float((known - slope * at).min()), float(slope)) for slope in slopes]
    lines = [(0.0, float((known / at).min())), *(line for line in starts if line[0] >= 0)]
    return max(lines, key=lambda line: line[0] * iterations + line[1] * tokens)

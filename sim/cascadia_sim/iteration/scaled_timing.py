"""A replica that is as much slower or faster as one says: what errors of a calibration do, and what serving teaches."""

from dataclasses import replace

import numpy as np

from cascadia_sim.iteration.timing import Ints, ReplicaTiming


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
        draft_ps=_times(timing.draft_ps, decoding),
        draft_context_ps=round(timing.draft_context_ps * decoding),
        pair_ps=timing.pair_ps * prefill,
    )


def _times(picoseconds: Ints, factor: float) -> Ints:
    """Exact at a factor of 1: int64 up to 2^53 ps (two hours) are whole as floats too."""
    times: Ints = np.rint(picoseconds * factor).astype(np.int64)
    return times

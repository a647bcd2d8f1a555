"""Replica timings and requests laid out as the arrays that the kernel works on."""

from collections.abc import Sequence

import numpy as np

from cascadia_sim import kernel
from cascadia_sim.dispatch import Replica
from cascadia_sim.kernel_arrays import Fleet, Requests, Sites
from cascadia_sim.timing import Ints, ReplicaTiming


def requests_of(arrival_ps: Ints, input_tokens: Ints, output_tokens: Ints, cached_tokens: Ints) -> Requests:
    n = arrival_ps.size
    return Requests(
        arrival_ps,
        input_tokens,
        output_tokens,
        cached_tokens,
        following=np.full(n, -1, np.int64),
        generated=np.zeros(n, np.int64),
        admission=np.zeros(n, np.int64),
        first_token_ps=np.full(n, -1, np.int64),
        finish_ps=np.full(n, -1, np.int64),
    )


def fleet_of(timings: Sequence[ReplicaTiming]) -> Fleet:
    """All lanes of all replicas, in order: replica r's `timings[r].lanes` follow those of the ones before."""
    lanes = sum(t.lanes for t in timings)
    seqs = max(t.max_num_seqs for t in timings)
    different = list({id(t): t for t in timings}.values())
    token_at = np.cumsum([0, *(t.token_ps.size for t in different)])
    sequence_at = np.cumsum([0, *(t.sequence_ps.size for t in different)])
    table_of = {id(t): i for i, t in enumerate(different)}
    limits = np.zeros((lanes, kernel.LIMITS), np.int64)
    pair_ps = np.zeros(lanes, np.float64)
    lane = 0
    for t in timings:
        i = table_of[id(t)]
        rows = slice(lane, lane + t.lanes)
        limits[rows, kernel.TOKEN_AT], limits[rows, kernel.TOKEN_END] = token_at[i], token_at[i + 1]
        limits[rows, kernel.SEQUENCE_AT], limits[rows, kernel.SEQUENCE_END] = (
            sequence_at[i],
            sequence_at[i + 1],
        )
        limits[rows, kernel.CONTEXT_PS] = t.context_ps
        limits[rows, kernel.BLOCKS] = t.kv_tokens // t.block_size
        limits[rows, kernel.BLOCK_SIZE] = t.block_size
        limits[rows, kernel.MAX_SEQS] = t.max_num_seqs
        limits[rows, kernel.MAX_TOKENS] = t.max_num_batched_tokens
        limits[rows, kernel.CHUNKED] = t.chunked_prefill
        pair_ps[rows] = t.pair_ps
        lane += t.lanes
    state = np.zeros((lanes, kernel.STATE), np.int64)
    for column in (kernel.NEXT, kernel.TAIL, kernel.PARTIAL, kernel.LATE_NEXT):
        state[:, column] = -1
    return Fleet(
        token_ps=np.concatenate([t.token_ps for t in different]).astype(np.int64, copy=False),
        sequence_ps=np.concatenate([t.sequence_ps for t in different]).astype(np.int64, copy=False),
        limits=limits,
        pair_ps=pair_ps,
        state=state,
        finish_step=np.zeros((lanes, seqs), np.int64),
        running=np.zeros((lanes, seqs), np.int64),
        residues=np.zeros((lanes, max(t.block_size for t in timings)), np.int64),
        preempted=np.zeros((lanes, seqs), np.int64),
        filled=np.zeros((lanes, seqs), np.int64),
        finished=np.zeros((lanes, seqs), np.int64),
    )


def sites_of(replicas: Sequence[Replica]) -> Sites:
    """Where each replica's lanes are in `fleet_of` the same replicas."""
    first_lane = np.cumsum([0, *(r.timing.lanes for r in replicas)], dtype=np.int64)
    n = len(replicas)
    weights = np.array([r.weight for r in replicas], np.float64)
    return Sites(first_lane, weights, credit=np.zeros(n), turn=np.zeros(n, np.int64))

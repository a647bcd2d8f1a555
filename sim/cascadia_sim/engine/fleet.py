"""Replica timings and requests laid out as the arrays that the kernel works on."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from cascadia_sim.engine import kernel
from cascadia_sim.engine.arrays import Fleet, Requests, Sites
from cascadia_sim.engine.client import constants
from cascadia_sim.engine.dispatch import Replica
from cascadia_sim.iteration.scheduling import VLLM_V1
from cascadia_sim.iteration.timing import Ints, ReplicaTiming


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
        prompt=np.zeros(n, np.int64),
        computed=np.zeros(n, np.int64),
        aloft=np.zeros(n, np.int64),
        charged=np.zeros(n, np.int64),
        first_token_ps=np.full(n, -1, np.int64),
        finish_ps=np.full(n, -1, np.int64),
    )


def fleet_of(timings: Sequence[ReplicaTiming]) -> Fleet:
    """A lane for each of `timings`, in their order."""
    lanes = len(timings)
    # Most lanes of a fleet are alike: tables are laid out once for each timing. By identity, since to compare
    # tables is to read all of them.
    different = list({id(t): t for t in timings}.values())
    seqs, stages = (
        max((getattr(t, size) for t in different), default=1) for size in ("max_num_seqs", "lanes")
    )
    token_at = list(accumulate((t.token_ps.size for t in different), initial=0))
    sequence_at = list(accumulate((t.sequence_ps.size for t in different), initial=0))
    draft_at = list(accumulate((t.draft_ps.size for t in different), initial=0))
    table_of = {id(t): i for i, t in enumerate(different)}
    rows = np.zeros((len(different), kernel.LIMITS), np.int64)
    for i, (t, row) in enumerate(zip(different, rows, strict=True)):
        row[kernel.TOKEN_AT], row[kernel.TOKEN_END] = token_at[i], token_at[i + 1]
        row[kernel.SEQUENCE_AT], row[kernel.SEQUENCE_END] = sequence_at[i], sequence_at[i + 1]
        row[kernel.DRAFT_AT], row[kernel.DRAFT_END] = draft_at[i], draft_at[i + 1]
        _set_limits(row, t)
    limits = rows[[table_of[id(t)] for t in timings]]
    state = np.zeros((lanes, kernel.STATE), np.int64)
    for column in (kernel.NEXT, kernel.TAIL, kernel.PARTIAL, kernel.LATE_NEXT):
        state[:, column] = -1
    state[:, kernel.CHANGED] = 1
    flights = np.zeros((lanes, stages, kernel.FLIGHT), np.int64)
    flights[:, :, kernel.SLOT] = np.arange(stages)
    return Fleet(
        token_ps=_joined([t.token_ps for t in different]),
        sequence_ps=_joined([t.sequence_ps for t in different]),
        limits=limits,
        pair_ps=np.array([t.pair_ps for t in timings], np.float64),
        state=state,
        finish_step=np.zeros((lanes, stages, seqs), np.int64),
        running=np.zeros((lanes, stages, seqs), np.int64),
        residues=np.zeros((lanes, stages, max((t.block_size for t in different), default=1)), np.int64),
        preempted=np.zeros((lanes, seqs), np.int64),
        filled=np.zeros((lanes, seqs), np.int64),
        finished=np.zeros((lanes, seqs), np.int64),
        members=np.zeros((lanes, stages, seqs), np.int64),
        flights=flights,
        draft_tokens=_joined([t.draft_tokens for t in different]),
        draft_ps=_joined([t.draft_ps for t in different]),
        acceptance=np.array([t.acceptance for t in timings], np.float64),
    )


def idle(fleet: Fleet) -> tuple[Ints, Ints]:
    """State and flights of a lane of a new fleet."""
    return fleet.state[0].copy(), fleet.flights[0].copy()


def _joined(tables: Sequence[Ints]) -> Ints:
    """Tables one behind the other; a single one is not copied, since the kernel only reads them."""
    # Numba takes an array that cannot be written for another type, and would compile all anew for it.
    if len(tables) == 1 and tables[0].flags.writeable:
        return np.ascontiguousarray(tables[0], np.int64)
    return np.concatenate([*tables, np.zeros(0, np.int64)]).astype(np.int64, copy=False)


def with_more_requests(requests: Requests, capacity: int) -> Requests:
    """The same, with room for `capacity` of them."""
    nothing = np.zeros(capacity, np.int64)
    more = requests_of(*(nothing.copy() for _ in range(4)))
    for known, column in zip(requests, more, strict=True):
        column[: known.size] = known
    return more


def with_more_lanes(fleet: Fleet, timings: Sequence[ReplicaTiming]) -> Fleet:
    """The lanes of `fleet` in the middle of their work, and idle ones behind them: `timings` are of all."""
    more = fleet_of(timings)
    for name in ("state", "finish_step", "running", "residues", "preempted", "filled", "finished", "members",
                 "flights"):  # fmt: skip
        known = getattr(fleet, name)
        getattr(more, name)[tuple(slice(size) for size in known.shape)] = known
    return more


def _set_limits(row: Ints, t: ReplicaTiming) -> None:
    rules = t.scheduling
    row[kernel.CONTEXT_PS] = t.context_ps
    row[kernel.BLOCKS] = t.kv_tokens // t.block_size * t.lanes
    row[kernel.BLOCK_SIZE] = t.block_size
    row[kernel.MAX_SEQS] = t.max_num_seqs
    row[kernel.MAX_TOKENS] = t.max_num_batched_tokens
    row[kernel.CHUNKED] = t.chunked_prefill
    row[kernel.STAGES] = t.lanes
    row[kernel.WATERMARK] = rules.watermark_blocks
    row[kernel.BATCH_SEQS] = rules.batch_seqs or t.max_num_seqs
    row[kernel.PADDED] = rules.padded_prompts
    row[kernel.CHUNKS_IN_STEP] = rules.chunks_in_step
    row[kernel.STARTS_BETWEEN] = rules.starts_between
    row[kernel.MOST_DRAFTS] = t.most_drafts
    row[kernel.DRAFT_CONTEXT_PS] = t.draft_context_ps
    row[kernel.SPECULATES] = t.draft_tokens.size > 0
    row[kernel.ENGINE] = _engine(t)


def _engine(t: ReplicaTiming) -> int:
    if t.scheduling != VLLM_V1 or t.draft_tokens.size > 0:
        return kernel.STEP_BY_STEP
    if t.lanes == 1:
        return kernel.SKIPPING
    return kernel.IN_RING if t.chunked_prefill else kernel.STEP_BY_STEP


def sites_of(replicas: Sequence[Replica], most_output: Sequence[int | None] = (None,)) -> Sites:
    """All open, nothing learnt yet; `most_output` of each group's answers, in tokens (None: any)."""
    groups = len(most_output)
    return Sites(
        weights=np.array([r.weight for r in replicas], np.float64),
        client=constants([r.timing for r in replicas]),
        credit=np.zeros(len(replicas)),
        open=np.arange(len(replicas), dtype=np.int64),
        turn=np.zeros(groups, np.int64),
        # As if one answer of the usual length had been seen: nothing is divided by 0, and its weight is soon
        # gone.
        written=np.full(groups, kernel.FIRST_ANSWER_TOKENS, np.int64),
        answers=np.ones(groups, np.int64),
        most_output=np.array([kernel.NEVER if most is None else most for most in most_output], np.int64),
    )

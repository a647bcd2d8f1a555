"""A trace joined with a quality table: which prompt each request is, and how long at each stage.

Arrival times always come from the trace. Requests whose `prompt_id`s stand in the table are those rows; in a
trace without ids each request draws a row, seeded. Lengths come from the trace, each stage's output scaled by
the table's ratio of that stage's mean output to the mean over stages, or wholly from the table.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.errors import BadInput
from cascadia.domain.quality import QualityTable
from cascadia.domain.workload import Workload
from cascadia.planner.stability.repeats import MAX_SPAN_S
from cascadia_sim.prefix_cache.shared_blocks import SharedBlocks, of_hashes, of_sessions
from cascadia_traces.trace import Trace

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Context:
    """The longest context a stage serves: input and output together, in tokens (>= 2)."""

    stage: str
    tokens: int


class Joined(NamedTuple):
    workload: Workload
    notes: tuple[str, ...]


class _Lengths(NamedTuple):
    """(S, n) each."""

    input_tokens: Ints
    output_tokens: Ints


def at_rate(trace: Trace, rate_rps: float | None, where: str) -> Trace:
    """`trace` at the mean rate `rate_rps`, or at its own; errors name the trace `where`."""
    span_s = trace.duration_s if rate_rps is None else len(trace) / rate_rps
    if span_s > MAX_SPAN_S:
        days = f"{span_s / 86_400:.3g} days"
        raise BadInput(
            where, f"spans {days} at this rate, and at most 45 can be planned on", "raise the rate"
        )
    return trace if rate_rps is None else trace.scaled(rate_rps)


def join(
    trace: Trace,
    table: QualityTable,
    *,
    seed: int,
    lengths: Literal["trace", "table"] | None = None,
    contexts: tuple[Context, ...] = (),
    max_input_tokens: int | None = None,
    overlong: Literal["truncate", "error"] = "truncate",
    where: str = "trace",
) -> Joined:
    """Every request of `trace` as the stages see it; errors name the trace `where`.

    `lengths` None takes the table's where prompt ids join and the trace's otherwise. A request that exceeds a
    stage's context is, for that stage, cut to fit (and counted in the notes), or an error.
    """
    trace = trace.starting_at_zero()
    if trace.duration_s == 0:
        raise BadInput(where, "all requests arrive at once, so they have no rate", "give times that differ")
    joined = _rows_by_id(trace, table, where)
    row = _drawn_rows(trace, table, seed) if joined is None else joined
    told_by_table = lengths == "table" or (lengths is None and joined is not None)
    wanted = _table_lengths(table, row) if told_by_table else _trace_lengths(trace, table)
    if max_input_tokens is not None:
        wanted = _Lengths(np.minimum(wanted.input_tokens, max_input_tokens), wanted.output_tokens)
    served, notes = _within_contexts(wanted, contexts, overlong, where)
    served = served._replace(output_tokens=table.as_left(served.output_tokens, row, seed))
    shortest = served.input_tokens.min(axis=0)
    prefix = np.zeros(len(trace), np.int64) if trace.prefix_tokens is None else trace.prefix_tokens
    workload = Workload(
        trace.arrival_s,
        row,
        served.input_tokens,
        served.output_tokens,
        np.minimum(prefix, shortest - 1),
        _shared_blocks(trace),
        drawn=table.drawn(row, seed),
        told_by_table=told_by_table,
    )
    return Joined(workload, notes)


def _shared_blocks(trace: Trace) -> SharedBlocks | None:
    """Shared blocks as the trace hashes its prompts' blocks, else as its sessions grow."""
    if trace.hash_ids is not None and any(trace.hash_ids):
        return of_hashes(trace.hash_ids, trace.output_tokens)
    if trace.session_id is not None and any(trace.session_id):
        return of_sessions(trace.session_id, trace.input_tokens, trace.output_tokens, trace.prefix_tokens)
    return None


def _rows_by_id(trace: Trace, table: QualityTable, where: str) -> Ints | None:
    """Each request's row; None where the trace has no ids. Ids that are not in the table are an error."""
    ids = trace.prompt_id
    if ids is None or not any(ids):
        return None
    rows = {prompt: row for row, prompt in enumerate(table.prompt_ids)}
    row = np.array([rows.get(prompt, -1) for prompt in ids], dtype=np.int64)
    unknown = np.flatnonzero(row < 0)
    if unknown.size == 0:
        return row
    count = "none" if unknown.size == len(row) else f"only {len(row) - unknown.size:,}"
    first = ids[unknown[0]]
    raise BadInput(
        where,
        f"{count} of its {len(row):,} requests have a prompt_id that is in the quality table"
        f" (request {unknown[0] + 1} has {first[:40]!r})",
        "give both files the same ids, or leave the column out to draw rows at random",
    )


def _drawn_rows(trace: Trace, table: QualityTable, seed: int) -> Ints:
    return np.random.default_rng(seed).integers(len(table), size=len(trace), dtype=np.int64)


def _table_lengths(table: QualityTable, row: Ints) -> _Lengths:
    return _Lengths(_tokens(table.input_tokens)[:, row], _tokens(_whole(table))[:, row])


def _whole(table: QualityTable) -> NDArray[np.float64]:
    return table.output_tokens if table.whole_tokens is None else table.whole_tokens


def _trace_lengths(trace: Trace, table: QualityTable) -> _Lengths:
    mean = _whole(table).mean(axis=1)
    ratio = mean / mean.mean()
    stages = len(table.stages)
    inputs = np.repeat(trace.input_tokens[np.newaxis, :], stages, axis=0)
    return _Lengths(inputs, _tokens(ratio[:, np.newaxis] * trace.output_tokens))


def _tokens(values: NDArray[np.float64]) -> Ints:
    return np.maximum(np.rint(values), 1).astype(np.int64)


def _within_contexts(
    lengths: _Lengths, contexts: tuple[Context, ...], overlong: str, where: str
) -> tuple[_Lengths, tuple[str, ...]]:
    """Inputs first give way, so that answers keep their length; an answer leaves room for one input token."""
    inputs, outputs = lengths.input_tokens.copy(), lengths.output_tokens.copy()
    notes: list[str] = []
    requests = inputs.shape[1]
    for stage, context in enumerate(contexts):
        over = int(np.count_nonzero(inputs[stage] + outputs[stage] > context.tokens))
        if over == 0:
            continue
        limit = f"the context of stage {context.stage!r} ({context.tokens:,} tokens)"
        what = f"{over:,} of {requests:,} requests exceed {limit}"
        if overlong == "error":
            raise BadInput(where, what, "set workload.overlong: truncate, or workload.max_input_tokens")
        notes.append(f"{what}: their inputs are cut to fit it")
        outputs[stage] = np.minimum(outputs[stage], context.tokens - 1)
        inputs[stage] = np.minimum(inputs[stage], context.tokens - outputs[stage])
    return _Lengths(inputs, outputs), tuple(notes)

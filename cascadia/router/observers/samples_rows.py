"""Columns of the workload log: as a trace, and as a quality table, so that their readers take the files as they are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cascadia.planner.problem.quality_judge import metadata_of

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
REQUESTS = "requests"
QUALITY = "quality"
ARRIVALS = "arrivals"
KINDS = (REQUESTS, QUALITY, ARRIVALS)


def schema_of(kind: str, *, text: bool) -> "pa.Schema":
    import pyarrow as pa

    if kind == ARRIVALS:
        return pa.schema([("arrival_s", pa.float64())])
    if kind == QUALITY:
        return pa.schema(_quality(pa, text), metadata=metadata_of(None))
    return pa.schema(_requests(pa, text))


def batch_of(rows: Sequence[Row], schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa

    columns = [pa.array([row[name] for row in rows], type=schema.field(name).type) for name in schema.names]
    return pa.record_batch(columns, schema=schema)


def sorted_by(kind: str) -> str:
    return "at_s" if kind == QUALITY else "arrival_s"


def _requests(pa: Any, text: bool) -> list[tuple[str, Any]]:
    step = [
        ("stage", pa.string()),
        ("outcome", pa.string()),
        ("score", pa.float64()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("counted", pa.bool_()),
        ("queue_s", pa.float64()),
        ("ttft_s", pa.float64()),
        ("seconds", pa.float64()),
        ("judge_s", pa.float64()),
    ]
    return [
        ("arrival_s", pa.float64()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("session_id", pa.string()),
        ("counted", pa.bool_()),
        ("request", pa.string()),
        ("prompt", pa.string()),
        ("api", pa.string()),
        ("model", pa.string()),
        ("stage", pa.string()),
        ("attempts", pa.int64()),
        ("status", pa.int64()),
        ("error", pa.string()),
        ("stopped", pa.string()),
        ("gear", pa.int64()),
        ("ttft_s", pa.float64()),
        ("e2e_s", pa.float64()),
        ("steps", pa.list_(pa.struct(step))),
        *([("question", pa.string())] if text else []),
    ]


def _quality(pa: Any, text: bool) -> list[tuple[str, Any]]:
    return [
        ("prompt_id", pa.string()),
        ("stage", pa.string()),
        ("score", pa.float64()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("at_s", pa.float64()),
        ("seconds", pa.float64()),
        ("gear", pa.int64()),
        *([("question", pa.string()), ("answer", pa.string())] if text else []),
    ]

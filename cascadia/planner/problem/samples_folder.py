"""Workload log of a router, all files of a folder together: a trace, and, of shadow evaluations, a quality
table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.domain.quality import QualityTable
from cascadia.planner.problem.trace_file import told_as_ours
from cascadia_traces.formats.reading import read_trace
from cascadia_traces.formats.rows import Rows
from cascadia_traces.trace import Trace

QUALITY_COLUMNS = ("prompt_id", "stage", "score", "input_tokens", "output_tokens", "at_s")
NAMES = ("prompt_id", "stage")


@dataclass(frozen=True, slots=True)
class Sampled:
    """`quality` None: no shadow evaluation, or none that saw the stages of the latest one. `left_out`
    evaluations did not see all of these, or were not scored there.
    """

    trace: Trace
    quality: QualityTable | None
    files: int
    left_out: int = 0


def read_samples(folder: Path) -> Sampled:
    """Raises `BadInput` where there is no file, or one cannot be read."""
    requests = sorted(folder.glob("requests-*.parquet"))
    if not requests:
        raise BadInput(
            str(folder), "holds no requests-*.parquet", "name the folder of router.yaml's section samples"
        )
    looks = sorted(folder.glob("quality-*.parquet"))
    with told_as_ours():
        trace = _by_arrival([read_trace(file) for file in requests])
    quality, left_out = _quality(looks) if looks else (None, 0)
    return Sampled(trace, quality, len(requests) + len(looks), left_out)


def _by_arrival(parts: Sequence[Trace]) -> Trace:
    """Files overlap where routers wrote at the same time, and where a request took longer than its file."""
    rows = Rows.joined(
        [
            Rows(
                np.arange(len(part)),
                part.arrival_s,
                part.input_tokens,
                output_tokens=part.output_tokens,
                prompt_id=None,
                session_id=part.session_id,
            )
            for part in parts
        ]
    )
    rows = rows.at(np.argsort(rows.arrival_s, kind="stable"))
    sessions = None if rows.session_id is None else tuple(rows.session_id)
    return Trace(
        rows.arrival_s,
        rows.input_tokens.astype(np.int64),
        rows.output_tokens.astype(np.int64),
        prompt_id=None,
        session_id=sessions,
    )


def _quality(files: Sequence[Path]) -> tuple[QualityTable | None, int]:
    table = _table(files)
    columns = {name: table.column(name).to_pylist() for name in QUALITY_COLUMNS}
    seen: dict[str, dict[str, int]] = {}
    for row, (prompt, stage) in enumerate(zip(columns["prompt_id"], columns["stage"], strict=True)):
        if columns["score"][row] is not None:
            seen.setdefault(prompt, {})[stage] = row
    asked = len(set(columns["prompt_id"]))
    if not seen:
        return None, asked
    # The stages may have changed meanwhile: those of the latest look are the ones in force.
    latest = max(seen, key=lambda prompt: max(columns["at_s"][row] for row in seen[prompt].values()))
    stages = tuple(sorted(seen[latest], key=lambda stage: columns["at_s"][seen[latest][stage]]))
    prompts = [prompt for prompt, rows in seen.items() if set(stages) <= set(rows)]
    order = np.array([[seen[prompt][stage] for prompt in prompts] for stage in stages])

    def numbers(name: str) -> Any:
        return np.array(columns[name], dtype=np.float64)[order]

    table = QualityTable(
        tuple(prompts),
        stages,
        numbers("score"),
        quality=numbers("score"),
        input_tokens=numbers("input_tokens"),
        output_tokens=numbers("output_tokens"),
    )
    return table, asked - len(prompts)


def _table(files: Sequence[Path]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import parquet

    told = pa.schema([(name, pa.string() if name in NAMES else pa.float64()) for name in QUALITY_COLUMNS])
    parts = []
    for file in files:
        try:
            part = parquet.read_table(file, columns=list(QUALITY_COLUMNS)).cast(told)
        except (pa.ArrowException, OSError) as error:
            said = (str(error).splitlines() or [""])[0][:120]
            raise BadInput(str(file), f"cannot be read ({said})", "remove it") from None
        parts.append(part.filter(pc.is_finite(part["at_s"])))
    return pa.concat_tables(parts)

"""Times of somebody else's API: as the spec says them, or from a table of measured answers."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.domain.quality import Floats
from cascadia.files.homes import named_path
from cascadia.planner.problem.quality_format import read_arrow
from cascadia.planner.spec.models import ApiLatency

COLUMNS = ("ttft_s", "tpot_s")


class ApiTimes(NamedTuple):
    ttft_p50_s: float
    ttft_p95_s: float
    tpot_p50_s: float
    tpot_p95_s: float


def api_times(spec: ApiLatency, folder: Path, where: str) -> ApiTimes:
    """Medians and 95th percentiles; of a table, those of its columns."""
    if spec.table is not None:
        return _measured(named_path(folder, spec.table), f"{where}.table")
    ttft_s, tpot_s = spec.ttft_s or 0.0, spec.tpot_s or 0.0
    p95 = spec.ttft_p95_s, spec.tpot_p95_s
    return ApiTimes(
        ttft_s, ttft_s if p95[0] is None else p95[0], tpot_s, tpot_s if p95[1] is None else p95[1]
    )


def _measured(path: Path, where: str) -> ApiTimes:
    # Not by pandas, an extra that a plan does without.
    if path.suffix not in (".csv", ".parquet", ".jsonl"):
        raise BadInput(where, f"{path.name} is no CSV, Parquet or JSONL", "name a file that ends so")
    try:
        rows = read_arrow(path, COLUMNS)
    except BadInput as error:
        raise BadInput(where, f"{error.where} {error.what}", "name a table with ttft_s and tpot_s") from None
    missing = [name for name in COLUMNS if name not in rows.column_names]
    if missing:
        raise BadInput(
            where, f"{path.name} has no column {', '.join(missing)}", "name them ttft_s and tpot_s"
        )
    found = []
    for name in COLUMNS:
        values = _seconds(rows.column(name).to_pylist())
        if not len(values) or not np.isfinite(values).all() or values.min() < 0:
            raise BadInput(
                where, f"{name} of {path.name} has rows that are no seconds", "write numbers from 0 up"
            )
        found += np.quantile(values, (0.5, 0.95), method="inverted_cdf").tolist()
    return ApiTimes(*found)


def _seconds(written: list[object]) -> Floats:
    """Values of a column, NaN where one is no number."""
    try:
        return np.array(written, np.float64)
    except (TypeError, ValueError):
        return np.array([np.nan])

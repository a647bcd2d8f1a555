"""The router's workload log (Parquet, no text) as `Samples`: files that end while we look are read the next time."""

import time
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from cascadia.controller.detect.windows import Samples
from cascadia.domain.workload import Floats

PATTERN = "requests-*.parquet"
ARRIVALS_PATTERN = "arrivals-*.parquet"
COLUMNS = ["arrival_s", "input_tokens", "output_tokens", "status", "ttft_s", "e2e_s", "gear", "steps"]
ANSWERED = 200
KEPT_S = 2 * 86_400.0
"""Before the newest; what is older is forgotten."""
AHEAD_S = 60.0
"""So far a router's clock may be ahead. What came later than that is not known yet: a clock that jumped would make all
that is true too old to keep."""
NEEDED = ("arrival_s", "input_tokens", "output_tokens")


class SampleFiles:
    """Samples of requests in one folder. Each file is read once; what is older than `kept_s` before the newest
    request is forgotten. `clock` is Unix time.
    """

    def __init__(
        self,
        folder: Path,
        kept_s: float = KEPT_S,
        ratio: float = 1.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self._kept_s = kept_s
        self._ratio = ratio
        self._clock = clock
        self._known: set[str] = set()
        self._rows: list[dict[str, Any]] = []
        self._came_s = np.zeros(0)

    def read(self) -> Samples:
        """All requests known by now, by arrival."""
        for path in sorted(self.folder.glob(PATTERN)):
            if path.name not in self._known:
                rows = _rows(path)
                if rows is not None:
                    self._known.add(path.name)
                    self._rows += rows
        for path in sorted(self.folder.glob(ARRIVALS_PATTERN)):
            if path.name not in self._known:
                rows = _rows(path, ["arrival_s"])
                if rows is not None:
                    self._known.add(path.name)
                    self._came_s = np.append(self._came_s, [row["arrival_s"] for row in rows])
        self._came_s.sort()
        self._rows.sort(key=lambda row: row["arrival_s"])
        until_s = self._clock() + AHEAD_S
        known = [row for row in self._rows if row["arrival_s"] <= until_s]
        if known:
            oldest_s = known[-1]["arrival_s"] - self._kept_s
            known = [row for row in known if row["arrival_s"] >= oldest_s]
            self._rows = [row for row in self._rows if row["arrival_s"] >= oldest_s]
            self._came_s = self._came_s[self._came_s >= oldest_s]
        came_s = self._came_s[self._came_s <= until_s]
        return samples_of(known, self._ratio, came_s if len(came_s) else None)


def samples_of(rows: Iterable[dict[str, Any]], ratio: float = 1.0, came_s: Floats | None = None) -> Samples:
    """Rows of the workload log as arrays."""
    rows = list(rows)
    stages = sorted(
        {step["stage"] for row in rows for step in row["steps"] or () if step["score"] is not None}
    )
    scores = {stage: np.full(len(rows), np.nan) for stage in stages}
    for i, row in enumerate(rows):
        for step in row["steps"] or ():
            if step["score"] is not None:
                scores[step["stage"]][i] = step["score"]
    return Samples(
        np.array([row["arrival_s"] for row in rows], dtype=np.float64),
        np.array([row["input_tokens"] for row in rows], dtype=np.int64),
        np.array([row["output_tokens"] for row in rows], dtype=np.int64),
        scores=scores,
        ratio=ratio,
        came_s=came_s,
        e2e_s=_seconds(rows, "e2e_s"),
        ttft_s=_seconds(rows, "ttft_s"),
        gear=np.array([-1 if row.get("gear") is None else row["gear"] for row in rows], dtype=np.int64),
    )


def _seconds(rows: Sequence[dict[str, Any]], name: str) -> Floats:
    """A time of each answered request; infinite for the others."""
    told = ((row[name], row["status"] == ANSWERED) for row in rows)
    return np.array([s if answered and s is not None else np.inf for s, answered in told], dtype=np.float64)


def _rows(path: Path, columns: Sequence[str] = COLUMNS) -> list[dict[str, Any]] | None:
    """Rows of a file that tell what they are to; None where it has gone meanwhile, or is damaged: the log makes room
    for itself."""
    import pyarrow as pa
    from pyarrow import parquet

    needed = [name for name in NEEDED if name in columns]
    try:
        # A router of before wrote no gears.
        there = parquet.read_schema(path).names
        columns = [name for name in columns if name in there or name != "gear"]
        rows: list[dict[str, Any]] = parquet.read_table(path, columns=columns).to_pylist()
    except (OSError, pa.ArrowException):
        return None
    return [
        row for row in rows if all(isfinite(row[name] or 0.0) and row[name] is not None for name in needed)
    ]

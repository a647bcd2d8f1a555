"""Answers of all stages to the same questions, scored: what tells of quality since a change."""

import time
from collections.abc import Callable
from contextlib import suppress
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cascadia.clients.cluster.evaluations_asked import ask
from cascadia.controller.detect.log_files import Tell, new_of
from cascadia.controller.detect.samples_file import AHEAD_S, KEPT_S
from cascadia.domain.workload import Floats, Ints
from cascadia.planner.problem.quality_judge import metadata_of

if TYPE_CHECKING:
    import pyarrow as pa

PATTERN = "quality-*.parquet"
GEAR = "gear"
COLUMNS = ["prompt_id", "stage", "score", "input_tokens", "output_tokens"]


class ShadowEvaluations(Protocol):
    """Times are Unix time."""

    def count(self, since_s: float) -> int:
        """Questions that went through all stages since then."""
        ...

    def write(self, since_s: float, path: Path) -> None:
        """A quality table of them."""
        ...

    def by_gear(self, since_s: float) -> tuple[Ints, Floats]:
        """The gear in which each such question's client was answered, and its answers' mean score, by time."""
        ...

    def scores(self, since_s: float) -> tuple[Ints, Floats]:
        """The same gears, -1 where none is told, and the scores [n, S] of all stages' answers, by time."""
        ...

    def ask(self) -> None:
        """Asks the router for more of them, for a while."""
        ...


class ShadowFiles:
    """Shadow evaluations in a router's workload log. Each file is read once; one that goes meanwhile was read,
    or is skipped. `clock` is Unix time, `tell` is given a line of each that is left out.
    """

    def __init__(
        self,
        folder: Path,
        stages: tuple[str, ...],
        clock: Callable[[], float] = time.time,
        tell: Tell = lambda _: None,
    ) -> None:
        self.folder = folder
        self.stages = stages
        self._clock = clock
        self._tell = tell
        self._known: set[str] = set()
        self._looks: dict[str, dict[str, dict[str, Any]]] = {}

    def count(self, since_s: float) -> int:
        return len(self._whole(since_s))

    def write(self, since_s: float, path: Path) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        whole = self._whole(since_s)
        rows = [{name: look[stage][name] for name in COLUMNS} for look in whole for stage in self.stages]
        table = pa.Table.from_pylist(rows).replace_schema_metadata(metadata_of(None))
        parquet.write_table(table, path)

    def by_gear(self, since_s: float) -> tuple[Ints, Floats]:
        gear, scores = self.scores(since_s)
        mean = scores.mean(axis=1)
        told = np.isfinite(mean) & (gear >= 0)
        return gear[told], mean[told]

    def scores(self, since_s: float) -> tuple[Ints, Floats]:
        looks = sorted(self._whole(since_s), key=_at_s)
        gears = [-1 if (gear := _gear(look)) is None else gear for look in looks]
        scores = [[look[stage]["score"] for stage in self.stages] for look in looks]
        return np.array(gears, np.int64), np.array(scores, float).reshape(-1, len(self.stages))

    def ask(self) -> None:
        with suppress(OSError):  # a log that may only be read: they come as before
            ask(self.folder)

    def _whole(self, since_s: float) -> list[dict[str, dict[str, Any]]]:
        self._read()
        wanted = set(self.stages)
        until_s = self._clock() + AHEAD_S
        looks = (look for look in self._looks.values() if wanted <= look.keys())
        return [look for look in looks if since_s <= _at_s(look) <= until_s]

    def _read(self) -> None:
        files = tuple(self.folder.glob(PATTERN))
        for rows in new_of(files, self._known, (*COLUMNS, "at_s", GEAR), _rows_of, self._tell):
            for row in (row for row in rows if isfinite(row["at_s"] or nan)):
                self._looks.setdefault(row["prompt_id"], {})[row["stage"]] = row
        # A clock that jumped ahead makes nothing else old.
        until_s = self._clock() + AHEAD_S
        known_s = (at_s for at_s in map(_at_s, self._looks.values()) if at_s <= until_s)
        oldest_s = max(known_s, default=0.0) - KEPT_S
        self._looks = {prompt: look for prompt, look in self._looks.items() if _at_s(look) >= oldest_s}


def _rows_of(table: "pa.Table") -> list[dict[str, Any]]:
    import pyarrow as pa

    numbers = [(name, pa.float64()) for name in ("score", "at_s")]
    numbers += [(name, pa.int64()) for name in ("input_tokens", "output_tokens")]
    # A router of before wrote no gears.
    numbers += [(GEAR, pa.int64())] if GEAR in table.column_names else []
    told = pa.schema([*((name, pa.string()) for name in ("prompt_id", "stage")), *numbers])
    found: list[dict[str, Any]] = table.select(told.names).cast(told).to_pylist()
    return found


def _gear(look: dict[str, dict[str, Any]]) -> int | None:
    return next(iter(look.values())).get(GEAR)


def _at_s(look: dict[str, dict[str, Any]]) -> float:
    """Unix time when it began."""
    return min(float(row["at_s"]) for row in look.values())

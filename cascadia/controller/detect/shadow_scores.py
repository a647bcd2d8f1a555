"""Answers of all stages to the same questions, scored: what tells of quality since a change."""

from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from cascadia.clients.cluster.evaluations_asked import ask
from cascadia.controller.detect.samples_file import KEPT_S
from cascadia.planner.problem.quality_judge import metadata_of

PATTERN = "quality-*.parquet"
COLUMNS = ["prompt_id", "stage", "score", "input_tokens", "output_tokens"]


class ShadowEvaluations(Protocol):
    """Times are Unix time."""

    def count(self, since_s: float) -> int:
        """Questions that went through all stages since then."""
        ...

    def write(self, since_s: float, path: Path) -> None:
        """A quality table of them."""
        ...

    def ask(self) -> None:
        """Asks the router for more of them, for a while."""
        ...


class ShadowFiles:
    """Shadow evaluations in a router's workload log. Each file is read once; one that goes meanwhile was read,
    or is skipped.
    """

    def __init__(self, folder: Path, stages: tuple[str, ...]) -> None:
        self.folder = folder
        self.stages = stages
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

    def ask(self) -> None:
        with suppress(OSError):  # a log that may only be read: they come as before
            ask(self.folder)

    def _whole(self, since_s: float) -> list[dict[str, dict[str, Any]]]:
        self._read()
        wanted = set(self.stages)
        return [look for look in self._looks.values() if wanted <= look.keys() and _at_s(look) >= since_s]

    def _read(self) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        for path in sorted(self.folder.glob(PATTERN)):
            if path.name in self._known:
                continue
            try:
                rows = parquet.read_table(path, columns=[*COLUMNS, "at_s"]).to_pylist()
            except (OSError, pa.ArrowException):
                continue
            self._known.add(path.name)
            for row in rows:
                self._looks.setdefault(row["prompt_id"], {})[row["stage"]] = row
        oldest_s = max(map(_at_s, self._looks.values()), default=0.0) - KEPT_S
        self._looks = {prompt: look for prompt, look in self._looks.items() if _at_s(look) >= oldest_s}


def _at_s(look: dict[str, dict[str, Any]]) -> float:
    """Unix time when it began."""
    return min(float(row["at_s"]) for row in look.values())

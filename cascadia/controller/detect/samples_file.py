"""The router's workload log (Parquet, no text) as `Samples`: files that end while we look are read the next time.

Arrays from the first to the last: two days of a busy router are millions of requests, and each look asks for them all.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cascadia.controller.detect.log_files import T, Tell, new_of
from cascadia.controller.detect.windows import Samples
from cascadia.domain.workload import Floats

if TYPE_CHECKING:
    import pyarrow as pa

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
    request is forgotten. `clock` is Unix time, `tell` is given a line of each file that is left out.
    """

    def __init__(
        self,
        folder: Path,
        kept_s: float = KEPT_S,
        ratio: float = 1.0,
        clock: Callable[[], float] = time.time,
        tell: Tell = lambda _: None,
    ) -> None:
        self.folder = folder
        self._tell = tell
        self._kept_s = kept_s
        self._clock = clock
        self._known: set[str] = set()
        none, no_numbers = np.zeros(0), np.zeros(0, np.int64)
        self._samples = Samples(
            none, no_numbers, no_numbers, ratio=ratio, e2e_s=none, ttft_s=none, gear=no_numbers
        )
        self._came_s = np.zeros(0)
        self._from_s = -np.inf

    def forget(self, before_s: float) -> None:
        """What is known by now, and what comes to be known of before `before_s` (Unix time), is told no more: it was
        dated by a clock that has been set."""
        self.read()
        self._from_s = before_s
        self._samples, self._came_s = self._samples.between(0.0, 0.0), np.zeros(0)

    def read(self) -> Samples:
        """All requests known by now, by arrival."""
        if requests := self._new(PATTERN, COLUMNS, _samples_of):
            self._samples = _joined([self._samples, *requests])
        if arrivals := self._new(ARRIVALS_PATTERN, COLUMNS[:1], _arrivals_of):
            self._came_s = np.sort(np.concatenate([self._came_s, *arrivals]))
        until_s = np.nextafter(self._clock() + AHEAD_S, np.inf)
        known = self._samples.between(self._from_s, until_s)
        came_s = self._came_s[slice(*np.searchsorted(self._came_s, (self._from_s, until_s)))]
        if len(known):
            oldest_s = float(known.arrival_s[-1]) - self._kept_s
            known, self._samples = (kept.between(oldest_s, np.inf) for kept in (known, self._samples))
            came_s, self._came_s = (
                kept[np.searchsorted(kept, oldest_s) :] for kept in (came_s, self._came_s)
            )
        return replace(known, came_s=came_s if len(came_s) else None)

    def _new(self, pattern: str, columns: Sequence[str], of: "Callable[[pa.Table], T]") -> list[T]:
        return list(new_of(tuple(self.folder.glob(pattern)), self._known, columns, of, self._tell))


def _joined(parts: Sequence[Samples]) -> Samples:
    """`parts` by arrival, with the ratio of the first. Of each of them all columns are known."""
    order = np.argsort(np.concatenate([part.arrival_s for part in parts]), kind="stable")

    def column(of: Callable[[Samples], Any]) -> Any:
        return np.concatenate([of(part) for part in parts])[order]

    def scored(stage: str) -> Any:
        return column(lambda part: part.scores.get(stage, np.full(len(part), np.nan)))

    return Samples(
        column(lambda part: part.arrival_s),
        column(lambda part: part.input_tokens),
        column(lambda part: part.output_tokens),
        scores={stage: scored(stage) for stage in sorted({stage for part in parts for stage in part.scores})},
        ratio=parts[0].ratio,
        e2e_s=column(lambda part: part.e2e_s),
        ttft_s=column(lambda part: part.ttft_s),
        gear=column(lambda part: part.gear),
    )


def _samples_of(table: "pa.Table") -> Samples:
    import pyarrow as pa
    import pyarrow.compute as pc

    table = _telling(table, NEEDED)
    answered = pc.equal(table["status"].cast(pa.int64()), ANSWERED)
    # A router of before wrote no gears.
    told = "gear" in table.column_names
    return Samples(
        _floats(table["arrival_s"]),
        table["input_tokens"].cast(pa.int64()).to_numpy(),
        table["output_tokens"].cast(pa.int64()).to_numpy(),
        scores=_scores(table),
        e2e_s=_floats(pc.if_else(answered, table["e2e_s"].cast(pa.float64()), None), np.inf),
        ttft_s=_floats(pc.if_else(answered, table["ttft_s"].cast(pa.float64()), None), np.inf),
        gear=pc.fill_null(table["gear"].cast(pa.int64()), -1).to_numpy() if told else np.full(len(table), -1),
    )


def _arrivals_of(table: "pa.Table") -> Floats:
    return _floats(_telling(table, NEEDED[:1])["arrival_s"])


def _telling(table: "pa.Table", needed: Sequence[str]) -> "pa.Table":
    """Rows that tell what they are to."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in needed:
        table = table.filter(pc.is_finite(table[name].cast(pa.float64())))
    return table


def _scores(table: "pa.Table") -> dict[str, Floats]:
    """The last score that each stage got of each request, for those that got any."""
    import pyarrow.compute as pc

    steps = table["steps"].combine_chunks()
    row, told = pc.list_parent_indices(steps), pc.list_flatten(steps)
    stage, score = (pc.struct_field(told, name) for name in ("stage", "score"))
    found = {}
    for name in sorted(pc.unique(stage.filter(score.is_valid())).to_pylist()):
        its = pc.and_(pc.equal(stage, name), score.is_valid())
        found[name] = np.full(len(table), np.nan)
        found[name][row.filter(its).to_numpy()] = score.filter(its).to_numpy()
    return found


def _floats(column: Any, instead: float = np.nan) -> Floats:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers: Floats = pc.fill_null(column.cast(pa.float64()), instead).to_numpy()
    return numbers

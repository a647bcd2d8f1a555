"""Cells measured one by one and kept as JSON lines, so that a run that was cut off goes on where it stopped."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np

from cascadia.planner.baselines.compare import Outcome, compare
from cascadia.planner.plan import open_search
from cascadia.planner.problem.read import read_problem
from cascadia.planner.refinement.refine import Effort
from cascadia.planner.search.throughput import max_rate_rps
from cascadia.reproduce.grid import Cell

EFFORT = Effort(fewest_simulations=60)
"""The planner's own, but at least 60 whole cascades however many requests a cell has."""


@dataclass(frozen=True, slots=True)
class Result:
    """One cell's outcomes by system; `systems[name]` has the fields of `Outcome` without its curve."""

    cell: str
    rate_rps: float
    requests: int
    slo_base_s: float
    took_s: float
    systems: dict[str, dict[str, Any]]

    def figure(self, system: str, field: str) -> float:
        """NaN where the system has no such figure."""
        value = self.systems.get(system, {}).get(field)
        return nan if value is None else float(value)


def measure(cell: Cell, folder: Path) -> Result:
    problem = read_problem(cell.case(folder).path)
    start = time.perf_counter()
    with open_search(problem) as search:
        found = compare(search, EFFORT)
    took_s = time.perf_counter() - start
    return Result(
        cell.key,
        problem.workload.rate_rps,
        len(problem.workload),
        found.slo_base_s,
        took_s,
        {o.name: _plain(o) for o in found.outcomes},
    )


def sustained_rps(cell: Cell, folder: Path) -> float:
    """The largest rate that Cascadia sustains at the cell's bar."""
    with open_search(read_problem(cell.case(folder, rate_rps=3.0).path)) as search:
        return max_rate_rps(search, np.flatnonzero(search.routings.lower >= cell.bar))


def known(path: Path) -> dict[str, Result]:
    """Results kept in `path`, by cell; a line cut off by the end of a process is left out."""
    if not path.exists():
        return {}
    return {result.cell: result for result in _read(path)}


def keep(path: Path, result: Result) -> None:
    with path.open("a") as stream:
        stream.write(json.dumps(asdict(result), allow_nan=False) + "\n")


def _read(path: Path) -> Iterator[Result]:
    for line in path.read_text().splitlines():
        try:
            yield Result(**json.loads(line))
        except json.JSONDecodeError:
            continue


def _plain(outcome: Outcome) -> dict[str, Any]:
    fields = {name: getattr(outcome, name) for name in Outcome.__dataclass_fields__ if name != "curve"}
    return {
        name: None if isinstance(value, float) and not isfinite(value) else value
        for name, value in fields.items()
    }

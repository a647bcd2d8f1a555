"""Ratios to Cascadia over all cells: geometric mean and range, wins and losses.

A ratio above 1 is in Cascadia's favour: the other's SLO scale over Cascadia's, Cascadia's largest rate over the
other's. A system that cannot keep up with the traffic has no SLO scale; such cells are counted, not averaged.
"""

from collections.abc import Callable, Sequence
from math import isfinite, nan
from typing import NamedTuple

import numpy as np

from cascadia.report.markdown import markdown
from cascadia.reproduce.cells import Result

ALIKE = 0.01
ALONE = "best stand-alone"
BASELINES = (ALONE, "coin", "cascadeserve", "pre-router")
ABLATIONS = ("uniform parallelism", "uniform allocation", "no refinement", "no judge cost", "no guarantee")
CONTAINED = (ALONE, "cascadeserve", "uniform parallelism", "uniform allocation", "no refinement")
"""Systems whose deployments Cascadia's search could have chosen."""

PAPER = {
    ALONE: ("2.8× (up to 4×)", "3× (up to 5×)"),
    "cascadeserve": ("1.7× (up to 2.5×)", "1.7× (up to 3.3×)"),
    "pre-router": ("1.27×", "1.19×"),
    "uniform parallelism": ("1.4× (up to 1.6×)", ""),
    "uniform allocation": ("1.7× (up to 2.1×)", ""),
}
"""Cascadia's own evaluation: SLO scale and throughput (section 4.2, figure 9, appendix I)."""


Rows = tuple[tuple[str, ...], ...]


class Ratios(NamedTuple):
    """`ratio` where both have a figure; in `alone` cells only Cascadia has one."""

    ratio: np.ndarray[tuple[int], np.dtype[np.float64]]
    alone: int

    @property
    def mean(self) -> str:
        return f"{np.exp(np.log(self.ratio).mean()):.2f}×" if len(self.ratio) else "–"

    @property
    def range(self) -> str:
        return f"{self.ratio.min():.2f}–{self.ratio.max():.2f}" if len(self.ratio) else "–"

    @property
    def told(self) -> str:
        return f"{self.mean} ({self.range})" if len(self.ratio) else "–"

    def cells(self, better: Callable[[float], bool]) -> str:
        return str(sum(better(r) for r in self.ratio.tolist()))


def assumed(results: Sequence[Result], system: str) -> bool:
    """True if what the system is granted was measured in none of the cells: then it is no claim about it."""
    return all(r.systems.get(system, {}).get("assumed") for r in results)


def present(results: Sequence[Result], systems: Sequence[str]) -> list[str]:
    """Systems that any cell tells of: cells measured before there was a baseline do not."""
    return [s for s in systems if s == ALONE or any(s in r.systems for r in results)]


def slo_scale(result: Result, system: str) -> float:
    if system != ALONE:
        return result.figure(system, "slo_scale")
    return min(
        (x for x in (result.figure(s, "slo_scale") for s in _alone(result)) if isfinite(x)), default=nan
    )


def rate_rps(result: Result, system: str) -> float:
    if system != ALONE:
        return result.figure(system, "max_rate_rps")
    found = (result.figure(s, "max_rate_rps") for s in _alone(result))
    return max((x for x in found if isfinite(x)), default=nan)


def _alone(result: Result) -> list[str]:
    return [name for name in result.systems if name.startswith("stand-alone")]


def by_slo_scale(results: Sequence[Result], system: str) -> Ratios:
    pairs = [(slo_scale(r, system), slo_scale(r, "cascadia")) for r in results]
    return _ratios([(theirs, ours) for theirs, ours in pairs if isfinite(ours)])


def by_rate(results: Sequence[Result], system: str) -> Ratios:
    pairs = [(rate_rps(r, "cascadia"), rate_rps(r, system)) for r in results]
    return _ratios([(ours, theirs) for ours, theirs in pairs if isfinite(ours)])


def _ratios(pairs: Sequence[tuple[float, float]]) -> Ratios:
    both = [above / below for above, below in pairs if isfinite(above) and isfinite(below)]
    return Ratios(np.array(both), len(pairs) - len(both))


def rows(results: Sequence[Result], systems: Sequence[str]) -> tuple[tuple[str, ...], Rows]:
    """Columns and rows, a system each: ratios, cells won and lost, and the paper's own."""
    found = []
    for system in present(results, systems):
        slo, rate = by_slo_scale(results, system), by_rate(results, system)
        paper_slo, paper_rate = PAPER.get(system, ("", ""))
        counts = (
            slo.cells(lambda r: r > 1 + ALIKE),
            slo.cells(lambda r: abs(r - 1) <= ALIKE),
            slo.cells(lambda r: r < 1 - ALIKE),
            str(slo.alone),
        )
        found.append(
            (
                system + (" (skill assumed)" if assumed(results, system) else ""),
                slo.told,
                paper_slo,
                ", ".join(counts),
                rate.told,
                paper_rate,
            )
        )
    counted = "we win, within 1 %, we lose, no answer"
    columns = ("", "SLO scale / ours", "in the paper", counted, "our req/s / theirs", "in the paper")
    return columns, tuple(found)


def table(results: Sequence[Result], systems: Sequence[str]) -> str:
    return markdown(*rows(results, systems))


def baselines(results: Sequence[Result]) -> str:
    return table(results, BASELINES)


def ablations(results: Sequence[Result]) -> str:
    return table(results, ABLATIONS)


def by_group(results: Sequence[Result], part: int) -> str:
    """Table by a part of a cell's key (cascade, trace, load or bar), SLO scale, rate and cells without answer."""
    groups = list(dict.fromkeys(r.cell.split(" | ")[part] for r in results))
    systems = present(results, BASELINES)
    rows = []
    for group in groups:
        mine = [r for r in results if r.cell.split(" | ")[part] == group]
        found = [(by_slo_scale(mine, s), by_rate(mine, s)) for s in systems]
        rows.append(
            (group, str(len(mine)), *(f"{slo.mean}, {rate.mean} ({slo.alone})" for slo, rate in found))
        )
    return markdown(("", "cells", *systems), rows)


class Fault(NamedTuple):
    """A deployment within Cascadia's reach that is better than the one it chose, by `figure`."""

    cell: str
    system: str
    figure: str
    theirs: float
    ours: float


def faults(results: Sequence[Result]) -> list[Fault]:
    found = []
    for r in results:
        for s in CONTAINED:
            theirs, ours = slo_scale(r, s), slo_scale(r, "cascadia")
            if isfinite(theirs) and not ours * (1 - ALIKE) <= theirs:
                found.append(Fault(r.cell, s, "SLO scale", theirs, ours))
            theirs, ours = rate_rps(r, s), rate_rps(r, "cascadia")
            if isfinite(theirs) and not theirs <= ours * (1 + ALIKE):
                found.append(Fault(r.cell, s, "max req/s", theirs, ours))
    return found


def faults_table(results: Sequence[Result]) -> str:
    found = faults(results)
    if not found:
        return "No system whose deployments lie within Cascadia's search is more than 1 % better than its choice."
    rows = [
        (f.cell.replace(" | ", ", "), f.system, f.figure, f"{f.theirs:.3g}", f"{f.ours:.3g}") for f in found
    ]
    return markdown(("cell", "beaten by", "in", "theirs", "ours"), rows, text_columns=3)


def missed_bars(results: Sequence[Result]) -> str:
    """Count of how often planning by the mean leaves the bar without its bound."""
    planned = [r for r in results if isfinite(slo_scale(r, "no guarantee"))]
    short = [r for r in planned if r.figure("no guarantee", "quality_lower") < float(r.cell.split(" | ")[3])]
    return f"without the guarantee, {len(short)} of {len(planned)} plans have a lower bound below the bar"

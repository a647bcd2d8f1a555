"""Writes docs/benchmarks/comparison.md, its data file and its pictures, from whatever cells have been measured.

    python -m tests.benchmarks.bench_compare_page [--results FOLDER/comparison.jsonl]

Without --results the page and the pictures are written from the data file.
"""

import argparse
import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from cascadia.report.charts.line import line_chart
from cascadia.report.charts.series import Series
from cascadia.reproduce import summary
from cascadia.reproduce.cells import Result, known
from cascadia.reproduce.grid import CASCADES, cells
from tests.benchmarks.report_table import alone, markdown, update
from tests.data import ROOT

DOCS = ROOT / "docs"
CELL = ("cascade", "trace", "load", "bar")
OF_CELL = ("rate_rps", "requests", "slo_base_s", "took_s")
FIGURES = (
    *("slo_scale", "latency_s", "max_rate_rps", "usd_per_hour", "usd_per_1k_requests"),
    *("quality_mean", "quality_lower"),
)
TEXTS = ("gpus", "deployment", "why", "assumed")


LOAD = 2
"""Place of the load in a cell's name."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where page, data and pictures go."""

    page: Path = DOCS / "benchmarks" / "comparison.md"
    data: Path = DOCS / "benchmarks" / "data" / "comparison.csv"
    images: Path = DOCS / "images"


def write(results: Sequence[Result], places: Places) -> None:
    write_data(places.data, results)
    for name, svg in pictures(results).items():
        (places.images / name).write_text(svg, encoding="utf-8")
    update(places.page, sections(results))


def sections(results: Sequence[Result]) -> dict[str, str]:
    return {
        "count": f"{len(results)} of {len(list(cells()))} cells; {summary.missed_bars(results)}.",
        "baselines": summary.baselines(results),
        "groups": summary.by_group(results, LOAD),
        "ablations": summary.ablations(results),
        "faults": summary.faults_table(results),
        "grid": grid(),
    }


def grid() -> str:
    rows = [
        (
            cascade.name,
            cascade.models,
            "GPT-4o, external" if cascade.judge else "Llama-3.1-8B, on GPUs",
            ", ".join(f"{bar:g}" for bar in cascade.bars),
            *(", ".join(f"{rate:g}" for rate in rates) for rates in cascade.rates_rps.values()),
        )
        for cascade in CASCADES
    ]
    traces = [f"{trace} req/s" for trace in CASCADES[0].rates_rps]
    return markdown(("name", "models", "judge", "bars", *traces), rows, text_columns=6)


def pictures(results: Sequence[Result]) -> dict[str, str]:
    """Each baseline's ratios to ours over the cells, in order."""
    return {
        "comparison-slo.svg": _ratios(
            results, summary.by_slo_scale, "SLO scale, theirs over ours; above 1 ours is faster"
        ),
        "comparison-rate.svg": _ratios(
            results, summary.by_rate, "Largest rate, ours over theirs; above 1 ours carries more"
        ),
    }


def _ratios(
    results: Sequence[Result], of: Callable[[Sequence[Result], str], summary.Ratios], title: str
) -> str:
    series = []
    for system in summary.BASELINES:
        ratio = sorted(of(results, system).ratio.tolist())
        if ratio:
            series.append(Series(system, [float(at) for at in range(1, len(ratio) + 1)], ratio))
    drawn = line_chart(
        series, title=title, x_label="cells, in order", y_label="ratio", log_y=True, h_lines=[(1.0, "alike")]
    )
    return alone(drawn)


def write_data(path: Path, results: Sequence[Result]) -> None:
    """A row a cell and system."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow((*CELL, *OF_CELL, "system", *FIGURES, *TEXTS))
        for result in results:
            of_cell = (*result.cell.split(" | "), *(_told(getattr(result, name)) for name in OF_CELL))
            for system, found in result.systems.items():
                rows.writerow((*of_cell, system, *(_told(found.get(name)) for name in (*FIGURES, *TEXTS))))


def _told(value: Any) -> Any:
    return "" if value is None or value != value else value


def read_data(path: Path) -> list[Result]:
    found: dict[str, Result] = {}
    with path.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            cell = " | ".join(row[part] for part in CELL)
            if cell not in found:
                rate, requests, base, took = (float(row[name] or "nan") for name in OF_CELL)
                found[cell] = Result(cell, rate, int(requests) if isfinite(requests) else 0, base, took, {})
            found[cell].systems[row["system"]] = dict(_system(row))
    return list(found.values())


def _system(row: dict[str, str]) -> Iterator[tuple[str, Any]]:
    for name in FIGURES:
        yield name, float(row[name]) if row[name] else None
    yield "gpus", int(row["gpus"] or 0)
    for name in TEXTS[1:]:
        yield name, row[name]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The page of the comparison, from what was measured")
    parser.add_argument(
        "--results", type=Path, help="JSON lines that bench_compare keeps; else the data file"
    )
    options = parser.parse_args(arguments)
    places = Places()
    write(list(known(options.results).values()) if options.results else read_data(places.data), places)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Cascadia beside every baseline, on three cascades, two traces, three loads and four quality bars each.

    python -m tests.benchmarks.bench_compare [--out FOLDER] [--quick] [--rates] [--page]

Results are kept in FOLDER/comparison.jsonl and cells found there are not run again: give another FOLDER after a change
of the planner. The whole grid takes half an hour of CPU. Prints the summary; exits with 1 where a baseline
that keeps the same bar in the same way has an SLO scale more than 1 % below Cascadia's, or a largest rate more than
1 % above: the search contains its deployments, so that would be a fault.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from cascadia.reproduce import summary
from cascadia.reproduce.cells import Result, keep, known, measure, sustained_rps
from cascadia.reproduce.grid import CASCADES, TRACES, Cell, cells
from tests.benchmarks.bench_compare_page import Places, write
from tests.benchmarks.report_table import figure, markdown

QUICK = 11
"""Every so many cells, with --quick."""


def run(folder: Path, chosen: list[Cell]) -> list[Result]:
    path = folder / "comparison.jsonl"
    done = known(path)
    for at, cell in enumerate(chosen, 1):
        if cell.key not in done:
            done[cell.key] = measure(cell, folder / "spec")
            keep(path, done[cell.key])
            print(
                f"{at}/{len(chosen)} {cell.key}: {done[cell.key].took_s:.0f} s", file=sys.stderr, flush=True
            )
    return [done[cell.key] for cell in chosen]


def rates(folder: Path) -> str:
    """What Cascadia sustains at each bar: the basis of the grid's rates."""
    rows = [
        (
            cascade.name,
            trace,
            *(figure(sustained_rps(Cell(cascade, trace, "low", bar), folder)) for bar in bars),
        )
        for cascade in CASCADES
        for trace in TRACES
        for bars in [cascade.bars]
    ]
    return markdown(("cascade", "trace", "bar 1", "bar 2", "bar 3", "bar 4"), rows, text_columns=2)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Cascadia beside every baseline")
    parser.add_argument("--out", type=Path, help="folder to keep results in, and to go on from")
    parser.add_argument("--quick", action="store_true", help=f"every {QUICK}th cell only")
    parser.add_argument("--rates", action="store_true", help="show the largest rates at each bar instead")
    parser.add_argument("--page", action="store_true", help="write the page, its data and its pictures anew")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder: Path = options.out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["CASCADIA_CACHE_DIR"] = str(folder / "store")  # tables by this code, no other
        if options.rates:
            print(rates(folder / "spec"))
            return 0
        results = run(folder, list(cells())[:: QUICK if options.quick else 1])
    print(summary.baselines(results), summary.ablations(results), summary.faults_table(results), sep="\n\n")
    if options.page:
        write(results, Places())
    return 1 if summary.faults(results) else 0


if __name__ == "__main__":
    sys.exit(main())

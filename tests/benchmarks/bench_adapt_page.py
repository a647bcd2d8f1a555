"""Writes the tables and pictures of docs/benchmarks/adapt.md from what the adapt benchmarks kept.

python -m tests.benchmarks.bench_adapt_page --out adapt-results
"""

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cascadia.controller.memory.history import Entry
from cascadia.controller.memory.timing import MoveTiming, move_timings
from cascadia.report.charts.line import line_chart
from cascadia.report.charts.series import Series
from cascadia.reproduce.adapt import day as days_of
from cascadia.reproduce.adapt import transition
from cascadia.reproduce.adapt.days import DAYS, HOUR_S, Day
from cascadia.reproduce.adapt.ways import Outcome
from tests.benchmarks.report_table import alone, markdown, update
from tests.data import ROOT

PAGE = ROOT / "docs" / "benchmarks" / "adapt.md"
WAYS = ROOT / "docs" / "benchmarks" / "data" / "adapt-days.csv"
TIMING = ROOT / "docs" / "benchmarks" / "data" / "adapt-moves.csv"
IMAGES = ROOT / "docs" / "images"
DRAWN = ("adaptive", "peaks", "oracle", "hourly")


def outcomes(folder: Path) -> dict[str, Outcome]:
    """By way, what was kept of one day; histories as entries again."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text())
        document["entries"] = [Entry(**entry) for entry in document["entries"]]
        found[path.stem] = Outcome(**document)
    return found


def shown(ways: dict[str, Outcome]) -> list[Outcome]:
    """The ways that are drawn, and of the plans that stay the one that answered most in time."""
    stay = [way for name, way in ways.items() if name not in DRAWN]
    return [ways[name] for name in ways if name in DRAWN] + sorted(stay, key=lambda way: -way.attained)[:1]


def cells(row: str) -> list[str]:
    """Of a row of a Markdown table."""
    return [cell.strip() for cell in row.strip("|").split("|")]


def write_ways(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """All ways of all days, with the columns that the file has."""
    head = path.read_text(encoding="utf-8").splitlines()[0].split(",")
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows((head, *rows))


def gpus(day: Day, ways: dict[str, Outcome]) -> str:
    """Held GPUs by hour, as steps."""
    series = []
    for name in DRAWN:
        if name in ways:
            at_s, held = np.array(ways[name].gpus).T
            hours = [*(at_s / HOUR_S), day.duration_s / HOUR_S]
            series.append(Series(ways[name].way, hours, [*held, held[-1]], steps=True))
    changes = [(r.start_s / HOUR_S, f"{r.name} →") for r in day.regimes[1:]]
    return line_chart(
        series,
        title=f"GPUs held: {day.name}",
        x_label="hour",
        y_label="GPUs",
        v_lines=changes,
        y_range=(0.0, 256.0),
        width=900,
    )


def attained(day: Day, ways: dict[str, Outcome]) -> str:
    series = []
    for way in ways.values():
        hours = np.arange(len(way.attained_by_hour)) + 0.5
        series.append(Series(way.way, hours.tolist(), [100 * share for share in way.attained_by_hour]))
    return line_chart(
        series,
        title=f"Answered within {day.slo_s:g} s: {day.name}",
        x_label="hour",
        y_label="%",
        h_lines=[(95.0, "asked")],
        y_range=(0.0, 100.0),
    )


def write_timing(path: Path, moves: Sequence[tuple[str, MoveTiming]]) -> None:
    rows = [
        (
            day,
            f"{move.begun_at_s / HOUR_S:.2f}",
            move.what.split(":")[0],
            *(f"{s:.0f}" for s in (move.noticed_s, move.gathered_s, move.planning_s)),
            f"{sum(move.loading_s.values()):.0f}",
            f"{move.draining_s:.0f}",
            f"{move.to_plan_s:.0f}",
            f"{move.to_last_step_s:.0f}",
        )
        for day, move in moves
    ]
    columns = (
        "day",
        "hour",
        "alarm",
        "noticing",
        "requests",
        "planning",
        "loading",
        "draining",
        "to the plan",
        "to the last step",
    )
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows((columns, *rows))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("adapt-results"))
    options = parser.parse_args()
    sections, counts, moves, kept = {}, [], [], []
    for name, make in DAYS.items():
        ways = outcomes(options.out / name)
        if not ways:
            continue
        day = make()
        sections[name] = days_of.table(shown(ways), day)
        if len(ways) > 1:
            kept += [(name, *cells(row)) for row in days_of.table(list(ways.values()), day).splitlines()[2:]]
            (IMAGES / f"adapt-{name}-gpus.svg").write_text(alone(gpus(day, ways)))
            (IMAGES / f"adapt-{name}-attained.svg").write_text(alone(attained(day, ways)))
        if "adaptive" in ways:
            ours = ways["adaptive"]
            alarms = sum(entry.kind == "alarm" for entry in ours.entries)
            counts.append(
                (day.name, f"{ours.requests:,}", str(alarms), str(ours.moves), f"{100 * ours.attained:.1f} %")
            )
            moves += [(day.name, move) for move in move_timings(ours.entries)]
    sections["moves"] = markdown(("day", "requests", "alarms", "moves", "within the SLO"), counts)
    write_timing(TIMING, moves)
    write_ways(WAYS, kept)
    ran = [
        transition.Ran(**row)
        for path in sorted(options.out.glob("transition-*/ran.json"))
        for row in json.loads(path.read_text())
    ]
    if ran:
        sections["transition"] = transition.table(ran)
    update(PAGE, {name: body for name, body in sections.items() if f"measured: {name} " in PAGE.read_text()})
    return 0


if __name__ == "__main__":
    sys.exit(main())

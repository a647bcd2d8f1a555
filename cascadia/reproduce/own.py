"""The project's own measurements again: the comparison's grid, and six hours of traffic that changes."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cascadia.reproduce import cells, summary
from cascadia.reproduce.adapt.day import run, world_of
from cascadia.reproduce.adapt.days import DAYS
from cascadia.reproduce.grid import cells as grid
from cascadia.reproduce.item import Item, Measured, Step

QUICK_CELLS = 11
"""Every so many of the grid's cells, with --quick."""
DAY = "azure-6h"
WAYS = ("adaptive", "forty", "static0")
SAME = "The figures of the documentation come from the same computation; a change of the planner moves them."


def comparison_steps(folder: Path, *, quick: bool) -> Iterator[Step]:
    for at, cell in list(enumerate(grid()))[:: QUICK_CELLS if quick else 1]:
        yield Step(f"cell-{at}", lambda c=cell: asdict(cells.measure(c, folder / "spec")))  # type: ignore[misc]


def comparison_items(measured: Measured) -> Iterator[Item]:
    results = [cells.Result(**found) for found in measured.values()]
    for name, systems in (("Baselines", summary.BASELINES), ("Ablations", summary.ABLATIONS)):
        columns, rows = summary.rows(results, systems)
        yield Item(
            name, f"{len(results)} cells, ratios to Cascadia (above 1: ours is better)", columns, rows, SAME
        )


def adapt_steps(folder: Path, *, quick: bool) -> Iterator[Step]:
    """`quick`: without the plan that stays."""
    for way in WAYS[:2] if quick else WAYS:
        yield Step(f"{DAY}-{way}", lambda w=way: _way(folder.resolve() / DAY, w))  # type: ignore[misc]


def adapt_items(measured: Measured) -> Iterator[Item]:
    day = DAYS[DAY]()
    rows = tuple(
        (
            found["way"],
            f"{100 * found['attained']:.1f} %",
            f"{100 * min(found['attained_by_hour']):.1f} %",
            f"{100 * found['refused']:.1f} %",
            f"{found['quality']:.1f}",
            f"{found['usd']:,.0f}",
            str(found["moves"]),
        )
        for found in measured.values()
    )
    columns = (
        "way",
        f"within {day.slo_s:g} s",
        "worst hour",
        "turned away",
        f"quality (asked {day.quality_min:g})",
        "$",
        "moves",
    )
    yield Item("Adapt", f"{day.name}, in six hours ({len(day.trace):,} requests)", columns, rows, SAME)


def _way(folder: Path, way: str) -> dict[str, Any]:
    outcome = asdict(run(way, world_of(DAYS[DAY](), folder), lambda _: None))
    return {name: value for name, value in outcome.items() if name != "entries"}

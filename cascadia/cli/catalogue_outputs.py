"""Support matrix as `cascadia catalogue` and its reference page show it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cascadia.report.numbers import percent

if TYPE_CHECKING:
    from rich.table import Table

    from cascadia_sim.evidence.support_matrix import Support

HEAD = ("GPU", "engine", "precision", "rests on", "a token", "first token", "calibration")
FEW = 3
"""More precisions than these that are alike are called the others."""


def table(cells: "Sequence[Support]") -> "Table":
    from rich import box
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for name in HEAD:
        shown.add_column(name, no_wrap=name in ("GPU", "rests on"))
    before = ""
    for card, *rest in rows(cells):
        shown.add_row("" if card == before else card, *rest)
        before = card
    return shown


def rows(cells: "Sequence[Support]") -> list[tuple[str, ...]]:
    """One for all engines and precisions of a GPU that rest alike on the same entry."""
    found = []
    for card in dict.fromkeys(c.gpu for c in cells):
        alike: dict[tuple[str, ...], list[str]] = {}
        for engine in dict.fromkeys(c.engine for c in cells if c.gpu == card):
            for row in _of_engine([c for c in cells if (c.gpu, c.engine) == (card, engine)]):
                alike.setdefault(row, []).append(engine)
        found += [(card, ", ".join(engines), *row) for row, engines in alike.items()]
    return found


def _of_engine(cells: "Sequence[Support]") -> list[tuple[str, ...]]:
    precisions: dict[tuple[str, ...], list[str]] = {}
    for c in cells:
        basis = f"~{c.basis}" if c.basis in ("served", "kernels") and not c.exact else c.basis
        told = basis, percent(c.error_tpot), percent(c.error_ttft), c.calibration
        precisions.setdefault(told, []).append(c.precision)
    ordered = sorted(precisions.items(), key=lambda item: (item[0][0].startswith("~"), len(item[1])))
    return [(_named(names, len(cells), last=told == ordered[-1][0]), *told) for told, names in ordered]


def _named(names: list[str], known: int, *, last: bool) -> str:
    if len(names) == known and known > 1:
        return "all"
    return "all others" if last and len(names) > FEW else ", ".join(names)

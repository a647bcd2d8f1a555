"""Outputs of `cascadia compare --over-time`."""

from typing import TYPE_CHECKING, Any

from cascadia.planner.over_time.compare import Beside, ComparisonOverTime
from cascadia.planner.over_time.settings import OverTime
from cascadia.report.numbers import seconds, usd

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS = (
    "system",
    "late",
    "quality",
    "p95",
    "GPUs",
    "$/h",
    "switches",
    "late at our quality",
    "quality when no later",
    "tuned",
)


def over_time_table(found: ComparisonOverTime) -> "Table":
    from rich.table import Table

    title = f"Later than {seconds(found.bound_s)} is late; asked: at most {1 - found.quantile:.1%}"
    shown = Table(title=title, title_justify="left")
    for at, name in enumerate(HEADINGS):
        shown.add_column(name, justify="right" if 0 < at < len(HEADINGS) - 1 else "left")
    for at, row in enumerate(over_time_rows(found)):
        shown.add_row(*row, style=None if at else "bold")
    return shown


def over_time_rows(found: ComparisonOverTime) -> list[tuple[str, ...]]:
    """Rows of the table, ours first; each with what the others can do at our quality, and at our lateness."""
    return [
        (found.ours.name, *_figures(found.ours), "", "", found.ours.tuned),
        *(_row(beside) for beside in found.beside),
    ]


def _row(beside: Beside) -> tuple[str, ...]:
    late = "none as good" if beside.as_good is None else f"{beside.as_good.late:.2%}"
    quality = "none as early" if beside.as_punctual is None else f"{beside.as_punctual.quality:.2f}"
    return (beside.name, *_figures(beside.chosen), late, quality, beside.chosen.tuned)


def _figures(of: OverTime) -> tuple[str, ...]:
    return (
        f"{of.late:.2%}",
        f"{of.quality:.2f}",
        seconds(of.p95_s),
        str(of.gpus),
        usd(of.usd_per_hour),
        str(of.switches),
    )


def over_time_json(found: ComparisonOverTime) -> dict[str, Any]:
    """JSON document of the comparison."""
    return {
        "bound_s": found.bound_s,
        "quantile": found.quantile,
        "ours": _as_json(found.ours),
        "systems": {
            beside.name: {
                "chosen": _as_json(beside.chosen),
                "as_good": _as_json(beside.as_good),
                "as_punctual": _as_json(beside.as_punctual),
            }
            for beside in found.beside
        },
    }


def _as_json(of: OverTime | None) -> dict[str, Any] | None:
    fields = ("late", "quality", "p50_s", "p95_s", "gpus", "usd_per_hour", "switches", "tuned")
    return None if of is None else {name: getattr(of, name) for name in fields}

"""`cascadia ledger`: spend by key and stage, whose sum is the bill."""

from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import positive, with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    from rich.table import Table

    from cascadia.ledger.ledger import Ledger


def moment(text: str) -> float:
    """A date as Unix time, as the type of an option; UTC unless it says otherwise."""
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no date; write e.g. 2026-11-01 or 2026-11-01T12:00") from None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.argument("logs", nargs=-1, required=True, metavar="LOG...", type=click.Path(path_type=Path))
@click.option(
    "--since",
    type=moment,
    metavar="DATE",
    help="Beginning of the bill's time. Default: the logs' first line.",
)
@click.option(
    "--until", type=moment, metavar="DATE", help="End of the bill's time. Default: the logs' last line."
)
@click.option(
    "--bill",
    "bill_usd",
    type=positive,
    metavar="USD",
    help="Dollars of the real bill. Default: the plan's $/h, by the hour.",
)
@with_output
@ends_at_once
def ledger(
    plan: Path,
    logs: tuple[Path, ...],
    since: float | None,
    until: float | None,
    bill_usd: float | None,
    output: Output,
) -> None:
    """Share the bill of PLAN's GPUs and APIs out to keys and stages, by what the routers' LOGs say was used.

    Idle time is a line of its own: the lines add up to the bill.
    """
    from cascadia.files.plan_file import read_plan
    from cascadia.ledger.ledger import ledger as make
    from cascadia.ledger.log import read_use

    found = read_plan(plan)
    with output.progress("reading logs"):
        use = read_use(logs, -inf if since is None else since, inf if until is None else until)
    if not use.lines and since is None and until is None:
        raise BadInput(
            str(logs[0]), "holds no request of a router", "name the log that `cascadia serve` writes"
        )
    if not use.lines:
        raise BadInput(str(logs[0]), "no request of that time", "check --since and --until")
    hours = ((use.last_s if until is None else until) - (use.first_s if since is None else since)) / 3600
    if hours <= 0:
        raise BadInput("--since, --until", "leave no time between them", "name the time that the bill is for")
    made = make(found, use, hours, bill_usd)
    output.show(_table(made))
    if use.untold:
        output.note(f"note: {use.untold:,} requests have no count of tokens, and are charged to nobody")
    output.document(
        {"hours": hours, "bill_usd": made.bill_usd, "by_key": made.by_key(), "entries": made.entries}
    )


def _table(made: "Ledger") -> "Table":
    from rich.table import Table

    shown = Table(
        box=None, pad_edge=False, title=f"${made.bill_usd:,.2f} for {made.hours:,.1f} h", title_justify="left"
    )
    for name in ("key", "stage", "requests", "tokens", "$"):
        shown.add_column(name, justify="left" if name in ("key", "stage") else "right")
    for key, usd in made.by_key().items():
        shown.add_row(key, "", "", "", f"{usd:,.4f}", style="bold")
        for entry in made.entries:
            if entry.key == key:
                shown.add_row(
                    "", entry.stage, f"{entry.requests:,}", f"{entry.tokens:,}", f"{entry.usd:,.4f}"
                )
    return shown

"""`cascadia reproduce`: the paper's evaluation again, on public data."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import Group, with_output
from cascadia.cli.shared.output import Output

if TYPE_CHECKING:
    from cascadia.reproduce.item import Item, Measured, Step
    from cascadia.reproduce.sources import Source

PAGE = "reproduction.md"


def with_folder(command: Callable[..., None]) -> Callable[..., None]:
    out = click.option(
        "--out",
        type=click.Path(path_type=Path),
        help=f"Folder for {PAGE} and what was measured; a run that was cut off goes on from it. Default: none.",
    )
    quick = click.option(
        "--quick", is_flag=True, help="Measure a part in a few minutes. Default: everything."
    )
    return out(quick(with_output(ends_at_once(command))))


@click.group(cls=Group)
def reproduce() -> None:
    """Make the paper's tables and figures again, side by side, and the project's own measurements.

    Public data is read under CASCADIA_DATA; where a file is missing or another, its origin, licence and hash are told.
    """


@reproduce.command()
@with_folder
def paper(out: Path | None, quick: bool, output: Output) -> None:
    """Make tables 1 to 7 and figures 5 to 11 of the paper, with appendices F and K."""
    from cascadia.reproduce import paper as found
    from cascadia.reproduce.sources import PAPER

    _reproduce(PAPER, found.steps, found.items, out, quick=quick, output=output)


@reproduce.command()
@with_folder
def comparison(out: Path | None, quick: bool, output: Output) -> None:
    """Compare Cascadia with every baseline on 72 cells."""
    from cascadia.reproduce import own
    from cascadia.reproduce.sources import COMPARISON

    _reproduce(COMPARISON, own.comparison_steps, own.comparison_items, out, quick=quick, output=output)


@reproduce.command()
@with_folder
def adapt(out: Path | None, quick: bool, output: Output) -> None:
    """Follow six simulated hours of Azure's traffic with the controller, beside plans that stay."""
    from cascadia.reproduce import own
    from cascadia.reproduce.sources import ADAPT

    _reproduce(ADAPT, own.adapt_steps, own.adapt_items, out, quick=quick, output=output)


def _reproduce(
    sources: "tuple[Source, ...]",
    steps: "Callable[..., Iterator[Step]]",
    items: "Callable[[Measured], Iterator[Item]]",
    out: Path | None,
    *,
    quick: bool,
    output: Output,
) -> None:
    from cascadia.reproduce.item import measure

    def begun(share: float, name: str) -> None:
        step(share, name)
        if not sys.stderr.isatty():
            output.note(f"{share:.0%} measured; next: {name}")

    with _folder(out, sources) as folder, output.progress("measuring") as step:
        measured = measure(list(steps(folder, quick=quick)), folder, begun)
    _tell(list(items(measured)), sources, out, output)


@contextmanager
def _folder(out: Path | None, sources: "tuple[Source, ...]") -> Iterator[Path]:
    """The folder that keeps what is measured: for good, or until the command ends."""
    from cascadia.files.scratch import scratch
    from cascadia.reproduce.sources import check

    check(sources)
    if out is not None:
        yield out
        return
    with scratch("reproduce-") as folder:
        yield folder


def _tell(items: "list[Item]", sources: "tuple[Source, ...]", out: Path | None, output: Output) -> None:
    from cascadia.files.text import write_whole
    from cascadia.reproduce.item import as_markdown

    read = [f"{source.path}: {source.origin}, {source.licence}" for source in sources]
    for item in items:
        output.show(_table(item))
        output.show(f"{item.why}\n")
    output.show("Data read:\n" + "\n".join(read))
    if out is not None:
        listed = "\n".join(f"- {line}" for line in read)
        write_whole(out / PAGE, f"# Reproduced\n\n{as_markdown(items)}\n## Data\n\n{listed}\n")
        output.note(f"written: {out / PAGE}")
    output.document({"sources": sources, "items": items})


def _table(item: "Item") -> Any:
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, title=f"{item.name}: {item.shows}", title_justify="left")
    for at, name in enumerate(item.columns):
        shown.add_column(name, justify="right" if at else "left")
    for row in item.rows:
        shown.add_row(*row)
    return shown

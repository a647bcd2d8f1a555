"""`cascadia thresholds`: propose, approve, roll back, and what was done."""

import getpass
import os
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import Group, number, positive, with_output
from cascadia.cli.shared.output import Output, plain
from cascadia.domain.errors import BadInput
from cascadia.domain.objective import bar_of_a_hundred

if TYPE_CHECKING:
    from cascadia.router.settings.model import RouterSettings
    from cascadia.thresholds.outcome import Estimate
    from cascadia.thresholds.propose import Proposal

_ROUTER = click.argument("router", type=click.Path(path_type=Path, dir_okay=False))
_BY = click.option("--by", help="Name of who does it, for the audit file. Default: this user's.")


@click.group(cls=Group)
def thresholds() -> None:
    """Change a router's thresholds as a reviewed change: ROUTER is its router.yaml.

    Each step adds a line to ROUTER.audit.jsonl. A router takes up a changed file by itself (`watch_s`), or on SIGHUP.
    """


@thresholds.command()
@_ROUTER
@click.option(
    "--quality-min",
    type=number,
    required=True,
    metavar="Q",
    help="Least mean quality, 0-100; the proposed thresholds hold it with confidence.",
)
@click.option(
    "--samples",
    type=click.Path(path_type=Path),
    help="Folder of the router's workload log. Default: none; a table is given.",
)
@click.option(
    "--quality-table",
    type=click.Path(path_type=Path),
    help="Quality table of the router's stages. Default: none; samples are given.",
)
@click.option(
    "--scale", type=positive, help="Highest score of the table's judge. Default: what the table says."
)
@click.option(
    "--confidence",
    type=number,
    default=0.95,
    show_default=True,
    help="Confidence of the quality's bound, 0.5-1.",
)
@_BY
@with_output
@ends_at_once
def propose(
    router: Path,
    quality_min: float,
    samples: Path | None,
    quality_table: Path | None,
    scale: float | None,
    confidence: float,
    by: str | None,
    output: Output,
) -> None:
    """Find the cheapest thresholds that hold a quality; nothing is changed."""
    from cascadia.planner.problem.quality_file import read_quality
    from cascadia.planner.problem.samples_folder import read_samples
    from cascadia.thresholds import audit
    from cascadia.thresholds.propose import propose as make

    try:
        bar_of_a_hundred(quality_min)
    except ValueError as error:
        raise BadInput("--quality-min", *str(error).split("; ")) from None
    if not 0.5 <= confidence < 1:
        raise BadInput("--confidence", f"is {confidence:g}", "write 0.5 to below 1")
    settings = _settings(router)
    names = tuple(stage.name for stage in settings.stages)
    if (samples is None) == (quality_table is None):
        raise BadInput(
            "--samples, --quality-table", "one of the two is needed", "give the folder or the table"
        )
    if quality_table is not None:
        table = read_quality(quality_table, names, scale=scale)
    else:
        assert samples is not None
        looked = read_samples(samples).quality
        if looked is None or looked.stages != names:
            raise BadInput(str(samples), f"no shadow evaluation of {', '.join(names)}", "switch `shadow` on")
        table = looked
        output.note(
            "quality is the judge's own score: add a table with checks or people's marks for the truth"
        )
    made = make(settings, table, quality_min=quality_min, confidence=confidence)
    with audit.held(router) as add:
        entry = {
            **_entry("proposed", by),
            "id": f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{len(audit.entries(router)) + 1}",
            "source": str(quality_table or samples),
            "expected": plain(made),
        }
        add(entry)
    output.show(_table(made))
    output.show(_said(made))
    output.show(
        f"proposed as {entry['id']}; `cascadia thresholds approve {shlex.quote(str(router))}` puts it in force"
    )
    output.document(entry)


@thresholds.command()
@_ROUTER
@click.option("--id", "name", help="Name of the proposal. Default: the latest.")
@_BY
@with_output
@ends_at_once
def approve(router: Path, name: str | None, by: str | None, output: Output) -> None:
    """Put a proposal into ROUTER, unless its thresholds have changed since."""
    from cascadia.thresholds import audit
    from cascadia.thresholds.change import set_thresholds

    audit.proposal(router, name)
    with audit.held(router) as add:
        found = audit.proposal(router, name)
        before, after = found["expected"]["now"]["thresholds"], found["expected"]["proposed"]["thresholds"]
        _refuse_others(router, before, "the proposal", "propose anew")
        set_thresholds(router, after)
        entry = {**_entry("approved", by), "id": found["id"], "before": before, "after": after}
        add(entry)
    output.show(f"{router}: {_levels(before)} -> {_levels(after)}")
    output.document(entry)


@thresholds.command()
@_ROUTER
@_BY
@with_output
@ends_at_once
def rollback(router: Path, by: str | None, output: Output) -> None:
    """Put back what ROUTER had before the latest approval, unless its thresholds have changed since."""
    from cascadia.thresholds import audit
    from cascadia.thresholds.change import set_thresholds

    audit.to_roll_back(router)
    with audit.held(router) as add:
        found = audit.to_roll_back(router)
        before, after = found["after"], found["before"]
        _refuse_others(
            router, before, "the approval", f"write {_levels(after)} by hand to go back all the same"
        )
        set_thresholds(router, after)
        entry = {**_entry("rolled back", by), "id": found["id"], "before": before, "after": after}
        add(entry)
    output.show(f"{router}: {_levels(before)} -> {_levels(after)}")
    output.document(entry)


@thresholds.command()
@_ROUTER
@with_output
@ends_at_once
def log(router: Path, output: Output) -> None:
    """Show what was proposed, approved and rolled back, and by whom."""
    from cascadia.router.settings.file import read_settings
    from cascadia.thresholds import audit

    found = audit.entries(router)
    if not found:
        read_settings(router)
        output.note(f"{router}: nothing was proposed yet")
    for entry in found:
        after = entry.get("after") or entry["expected"]["proposed"]["thresholds"]
        output.show(f"{entry['at']}  {entry['what']:<11}  {entry['id']}  {entry['by']}  {_levels(after)}")
    output.document({"entries": found})


def _settings(router: Path) -> "RouterSettings":
    """Raises `BadInput` for a file that a fleet writes: its router would not take the change up, and its next step
    would write the file anew."""
    from cascadia.router.settings.file import read_settings

    found = read_settings(router)
    if found.revision:
        what = "is written by its fleet, which puts back the plan's thresholds"
        raise BadInput(str(router), what, "plan anew, and `cascadia move` to that")
    return found


def _refuse_others(router: Path, expected: dict[str, float], of: str, instead: str) -> None:
    """Raises `BadInput` where the router has other thresholds today."""
    today = {stage.name: stage.threshold for stage in _settings(router).stages[:-1]}
    if today != expected:
        raise BadInput(str(router), f"its thresholds ({_levels(today)}) are not those of {of}", instead)


def _entry(what: str, by: str | None) -> dict[str, Any]:
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "what": what,
        "by": by or _user(),
    }


def _user() -> str:
    """This user's name; the number where the system has none for it, as in containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _levels(thresholds: dict[str, float]) -> str:
    return ", ".join(f"{stage} {level:g}" for stage, level in thresholds.items())


def _table(made: "Proposal") -> object:
    from rich.table import Table

    unit = "$" if made.in_usd else "cost"
    shown = Table(box=None, pad_edge=False)
    for name in ("", "thresholds", "answered by", f"{unit} per 1,000", "quality"):
        shown.add_column(name, justify="left" if name in ("", "thresholds", "answered by") else "right")
    for name, setting in (("now", made.now), ("proposed", made.proposed), ("largest alone", made.large)):
        answered = ", ".join(f"{stage} {share:.0%}" for stage, share in setting.answered.items() if share)
        cost, quality = setting.cost, setting.quality
        cells = f"{cost.mean:.4g} ± {cost.margin:.2g}", f"{quality.mean:.1f} ± {quality.margin:.1f}"
        shown.add_row(name, _levels(setting.thresholds), answered, *cells)
    return shown


def _said(made: "Proposal") -> str:
    unit = "$" if made.in_usd else ""
    return (
        f"proposed against now: {_saved(made.saved, unit)} per 1,000 requests, "
        f"quality {made.gained.mean:+.1f} ± {made.gained.margin:.1f}; holds {made.lower:.1f} "
        f"with {made.confidence * 100:g}% confidence, on {made.prompts:,} prompts\n"
        f"now against all to the largest: {_saved(made.saved_to_large, unit)} per 1,000 requests, "
        f"quality {made.gained_to_large.mean:+.1f} ± {made.gained_to_large.margin:.1f}"
    )


def _saved(found: "Estimate", unit: str) -> str:
    """`saves $0.12 ± 0.01`; what saves less than nothing `costs` so much `more`."""
    told = f"{unit}{abs(found.mean):.3g} ± {found.margin:.2g}"
    return f"costs {told} more" if found.mean < 0 else f"saves {told}"

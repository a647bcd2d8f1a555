"""`cascadia doctor`: what this machine has, what it lacks, and what to do about it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import positive, refuse_ignored, with_output
from cascadia.cli.shared.output import Output

if TYPE_CHECKING:
    from rich.table import Table

    from cascadia.doctor.finding import Finding

SIGNS = {"good": "ok", "note": "note", "bad": "BAD"}


@click.command()
@click.argument("plan", required=False, type=click.Path(path_type=Path))
@click.option(
    "--quality-table",
    type=click.Path(path_type=Path),
    help="Quality table whose judge is looked at; its scale and its AUC at each stage are told. "
    "Default: none.",
)
@click.option(
    "--scale",
    type=positive,
    help="Highest score of the table's judge. Default: what the table says, else 100.",
)
@with_output
@ends_at_once
def doctor(plan: Path | None, quality_table: Path | None, scale: float | None, output: Output) -> None:
    """Look at this machine, and at PLAN (a plan.json, or its folder) on it; say what to do about each fault.

    Nothing is changed and nothing is sent anywhere. Exits 1 where something stops Cascadia from working here.
    """
    from cascadia.doctor.fit import fit
    from cascadia.doctor.judge import judge
    from cascadia.doctor.machine import machine
    from cascadia.doctor.programs import images, programs
    from cascadia.files.plan_file import read_plan

    if quality_table is None:
        refuse_ignored(("scale",), "without --quality-table")
    found = None if plan is None else read_plan(plan)
    with output.progress("looking"):
        findings = [*machine(), *programs(found)]
        if found is not None and plan is not None:
            findings += [*fit(found, findings), *images(found, plan if plan.is_dir() else plan.parent)]
        if quality_table is not None:
            findings += judge(quality_table, scale)
    output.show(_table(findings))
    count = Counter(finding.state for finding in findings)
    output.show(f"{count['good']} well, {count['note']} to know, {count['bad']} to mend")
    output.document({"findings": findings, "bad": count["bad"]})
    if count["bad"]:
        click.get_current_context().exit(1)


def _table(findings: "Sequence[Finding]") -> "Table":
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    for name in ("", "looked at", "found", "what to do"):
        shown.add_column(name, overflow="fold")
    for finding in findings:
        shown.add_row(SIGNS[finding.state], finding.what, finding.said, finding.do)
    return shown

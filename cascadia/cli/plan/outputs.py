"""The files of a plan's folder."""

import shlex
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from cascadia.cli.shared.options import GIVEN
from cascadia.domain.plan import Plan
from cascadia.files.plan_file import write_plan
from cascadia.render import FILE_NAMES, render, targets_for

if TYPE_CHECKING:
    from cascadia.planner.plan import PlanResult
    from cascadia.planner.sensitivity.nearby import Sensitivity
    from cascadia.report.data import ReportData

PLAN_FILES = ("plan.json", "report.html", *FILE_NAMES.values())
"""What the folder may hold; the first marks it as a plan's."""


class Planned(Protocol):
    """A plan, with what to tell the user beside it."""

    @property
    def plan(self) -> Plan: ...

    @property
    def notes(self) -> tuple[str, ...]: ...


def write_outputs(folder: Path, result: Planned, files: Iterable[tuple[str, str]] | None = None) -> None:
    """plan.json and the manifests; `files`: these, where they are made elsewhere."""
    write_plan(result.plan, folder / "plan.json")
    for name, text in files or manifests(result.plan):
        (folder / name).write_text(text, encoding="utf-8")


def manifests(plan: Plan) -> Iterator[tuple[str, str]]:
    """Name and text of a file for each target of `cascadia render` that can run the plan."""
    for target in targets_for(plan):
        yield FILE_NAMES[target], render(plan, plan.cluster, target)


def write_report(
    folder: Path, result: "PlanResult", spec: Path, command: str, around: "Sensitivity | None" = None
) -> "ReportData":
    """report.html, and what it shows; `command` makes the plan again. `around`: where it is known already."""
    from cascadia.cli.plan.report import report_data
    from cascadia.report.html import render_report

    date = datetime.now(UTC).date().isoformat()
    data = report_data(result, spec_name=spec.name, command=command, date=date, around=around)
    (folder / "report.html").write_text(render_report(data), encoding="utf-8")
    return data


def command_line(context: click.Context) -> str:
    """The command as it was given, as a shell takes it."""
    return shlex.join([*context.command_path.split(), *context.meta[GIVEN]])


def summary(plan: Plan) -> object:
    """The plan for a terminal, as rich prints it."""
    from cascadia.report.text import plan_summary

    return plan_summary(plan)

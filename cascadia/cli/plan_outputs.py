"""The files of a plan's folder."""

from pathlib import Path
from typing import Protocol, get_args

from cascadia.domain.plan import Plan
from cascadia.planner.plan_file import write_plan
from cascadia.render import FILE_NAMES, Target, render

PLAN_FILES = ("plan.json", "report.html", *FILE_NAMES.values())
"""What the folder may hold; the first marks it as a plan's."""


class Planned(Protocol):
    """A plan, with what to tell the user beside it."""

    @property
    def plan(self) -> Plan: ...

    @property
    def notes(self) -> tuple[str, ...]: ...


def write_outputs(folder: Path, result: Planned, spec_name: str, *, with_report: bool) -> None:
    """plan.json, one file for each target of `cascadia render`, and the report."""
    write_plan(result.plan, folder / "plan.json")
    for target in get_args(Target):
        text = render(result.plan, result.plan.cluster, target)
        (folder / FILE_NAMES[target]).write_text(text, encoding="utf-8")
    if with_report:
        from cascadia.report.data import ReportData
        from cascadia.report.html import render_report

        data = ReportData(plan=result.plan, notes=result.notes, spec_name=spec_name)
        (folder / "report.html").write_text(render_report(data), encoding="utf-8")


def summary(plan: Plan) -> object:
    """The plan for a terminal, as rich prints it."""
    from cascadia.report.text import plan_summary

    return plan_summary(plan)

"""`cascadia render`: manifests and process definitions from a plan."""

import json
from pathlib import Path
from typing import Any, get_args

import click

from cascadia.cli.common import with_output
from cascadia.cli.output import Output, write
from cascadia.render import FILE_NAMES, Target, notes
from cascadia.render import render as render_plan


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--target", required=True, type=click.Choice(get_args(Target)), help="What to write the plan as."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File or existing folder to write to, instead of standard output.",
)
@with_output
def render(plan: Path, target: Target, out: Path | None, output: Output) -> None:
    """Write PLAN (a plan.json, or the folder with it) as manifests or process definitions."""
    from cascadia.planner.plan_file import read_plan
    from cascadia.planner.text_file import write_whole

    found = read_plan(plan)
    text = render_plan(found, found.cluster, target)
    file = None if out is None else _file(out, target)
    if file is not None:
        write_whole(file, text)
    elif not output.json:
        write(text)
    remarks = notes(found)
    for remark in remarks:
        output.note(remark)
    output.document({"target": target, "out": file, "notes": remarks, "documents": _documents(text, target)})


def _file(out: Path, target: Target) -> Path:
    return out / FILE_NAMES[target] if out.is_dir() else out


def _documents(text: str, target: Target) -> list[Any]:
    """What was rendered, as values: a program need not parse YAML within JSON."""
    if target == "local":
        loaded: list[Any] = json.loads(text)
        return loaded
    import yaml

    return list(yaml.safe_load_all(text))

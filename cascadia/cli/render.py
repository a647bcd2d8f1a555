"""`cascadia render`: manifests and process definitions from a plan."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any, get_args

import click

from cascadia.cli.common import with_output
from cascadia.cli.output import Output, write
from cascadia.domain.errors import BadInput
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

    found = read_plan(plan)
    text = render_plan(found, found.cluster, target)
    file = None if out is None else _file(out, target)
    if file is not None:
        _write_whole(file, text)
    elif not output.json:
        write(text)
    remarks = notes(found)
    for remark in remarks:
        output.note(remark)
    output.document({"target": target, "out": file, "notes": remarks, "documents": _documents(text, target)})


def _file(out: Path, target: Target) -> Path:
    return out / FILE_NAMES[target] if out.is_dir() else out


def _write_whole(file: Path, text: str) -> None:
    """All or nothing: the text is complete under a temporary name before it takes its own."""
    try:
        handle, partial = tempfile.mkstemp(prefix=".cascadia-", dir=file.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            Path(partial).chmod(0o644)
            Path(partial).replace(file)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BadInput(
            str(file), f"cannot be written ({error.strerror})", "name a file in a writable folder"
        ) from None


def _documents(text: str, target: Target) -> list[Any]:
    """What was rendered, as values: a program need not parse YAML within JSON."""
    if target == "local":
        loaded: list[Any] = json.loads(text)
        return loaded
    import yaml

    return list(yaml.safe_load_all(text))

"""`cascadia render`: manifests and process definitions from a plan."""

import json
from pathlib import Path
from typing import Any, get_args

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import refuse_ignored, with_output
from cascadia.cli.shared.output import Output, write
from cascadia.cli.shared.output_dir import Written
from cascadia.domain.errors import BadInput
from cascadia.render import FILE_NAMES, NAMESPACE, Target, notes
from cascadia.render import render as render_plan

_LARGEST_VALUES_BYTES = 1_000_000


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--target", required=True, type=click.Choice(get_args(Target)), help="Target to write the plan for."
)
@click.option(
    "--out",
    type=Written(),
    help="File or existing folder to write to. Default: standard output.",
)
@click.option(
    "--namespace",
    default=NAMESPACE,
    show_default=True,
    help="Namespace of Kubernetes' objects (target kubernetes).",
)
@click.option(
    "--values",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="YAML file with values of the Helm chart, over the plan's; target kubernetes alone takes it. "
    "Repeatable. Default: none.",
)
@with_output
@ends_at_once
def render(
    plan: Path, target: Target, out: Path | None, namespace: str, files: tuple[Path, ...], output: Output
) -> None:
    """Write PLAN (a plan.json, or the folder with it) as manifests or process definitions."""
    from cascadia.files.plan_file import read_plan
    from cascadia.files.text import write_whole

    if files and target != "kubernetes":
        raise BadInput("--values", f"says nothing to target {target}", "give the file to helm as -f")
    if target != "kubernetes":
        refuse_ignored(("namespace",), f"to target {target}")
    found = read_plan(plan)
    text = render_plan(found, found.cluster, target, namespace=namespace, values=_values(files))
    file = None if out is None else _file(out, target)
    if file is not None:
        write_whole(file, text)
    elif not output.json:
        write(text)
    remarks = notes(found)
    for remark in remarks:
        output.note(remark)
    output.document({"target": target, "out": file, "notes": remarks, "documents": _documents(text, target)})


def _values(files: tuple[Path, ...]) -> dict[str, Any]:
    """Values of the files; later ones go over earlier ones."""
    from cascadia.files.strict_yaml import parse_yaml
    from cascadia.files.text import read_text
    from cascadia.render.kubernetes.chart_values import merged

    found: dict[str, Any] = {}
    for file in files:
        document = parse_yaml(read_text(file, _LARGEST_VALUES_BYTES), str(file))
        if not isinstance(document, dict):
            raise BadInput(str(file), "is no map of values", "write e.g. router: {replicas: 3}")
        found = merged(found, document)
    return found


def _file(out: Path, target: Target) -> Path:
    return out / FILE_NAMES[target] if out.is_dir() else out


def _documents(text: str, target: Target) -> list[Any]:
    """Rendered documents, as values: a program need not parse YAML within JSON."""
    if target == "local":
        loaded: list[Any] = json.loads(text)
        return loaded
    import yaml

    return list(yaml.safe_load_all(text))

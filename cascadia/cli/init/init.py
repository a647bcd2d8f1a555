"""`cascadia init`: a commented spec, by asking or from flags."""

import os
import shlex
import sys
from pathlib import Path

import click

from cascadia.cli.init.given_files import check_files
from cascadia.cli.init.questions import (
    Asker,
    asked_stages,
    known_gpu,
    known_judge,
    named_api,
    named_model,
    one_of,
    percent,
    whole_number,
)
from cascadia.cli.init.template import Answers, Api, Model, spec_text
from cascadia.cli.shared.options import number, positive, with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput

NO_LEVELS = "none"
PRESETS = ("chat", "code-completion", "agent", "batch")
GOALS = ("latency", "cost", "quality")


@click.command()
@click.argument("path", type=click.Path(path_type=Path), default="cascade.yaml")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME=MODEL",
    help="Model of a stage, small ones first; repeat it for each stage. Default: asked for.",
)
@click.option(
    "--external",
    "apis",
    multiple=True,
    metavar="NAME=MODEL,IN,OUT,TTFT,TPOT[,RPM]",
    help="Stage that is somebody else's API: dollars per million tokens in and out, seconds to the "
    "first and each further token, requests per minute; after those of --model. Default: asked "
    "for.",
)
@click.option(
    "--goal",
    type=click.Choice(GOALS),
    help="Goal of planning: least latency, least cost, or most quality. Default: asked for.",
)
@click.option(
    "--preset",
    type=click.Choice([*PRESETS, NO_LEVELS]),
    help="Service levels by kind of use. Default: asked for; with --yes none, or chat for the goal quality.",
)
@click.option("--gpu", help="Name of the GPU in the catalogue, e.g. h100-sxm. Default: asked for.")
@click.option(
    "--nodes", type=click.IntRange(1, 100_000), help="Number of nodes with that GPU. Default: asked for."
)
@click.option(
    "--gpus-per-node", type=click.IntRange(1, 1_000), help="Number of GPUs in each node. Default: asked for."
)
@click.option(
    "--judge",
    help="Judge of the answers: embedding, certainty, or an LLM judge's model. Default: asked for.",
)
@click.option(
    "--trace", help="Path of the workload trace; relative to here or to the spec. Default: asked for."
)
@click.option(
    "--quality-table", help="Path of the quality table; relative to here or to the spec. Default: asked for."
)
@click.option(
    "--quality-min", type=number, help="Least mean quality of the answers, 0-100. Default: asked for."
)
@click.option(
    "--rate",
    "rate_rps",
    type=positive,
    metavar="RPS",
    help="Mean rate that arrivals are rescaled to, in requests/s. Default: the trace's own.",
)
@click.option("--yes", "-y", is_flag=True, help="Ask nothing and take defaults for what is not given.")
@click.option("--force", is_flag=True, help="Overwrite PATH if it exists.")
@with_output
def init(
    path: Path,
    models: tuple[str, ...],
    apis: tuple[str, ...],
    goal: str | None,
    preset: str | None,
    gpu: str | None,
    nodes: int | None,
    gpus_per_node: int | None,
    judge: str | None,
    trace: str | None,
    quality_table: str | None,
    quality_min: float | None,
    rate_rps: float | None,
    yes: bool,
    force: bool,
    output: Output,
) -> None:
    """Write a commented spec to PATH (cascade.yaml).

    What flags don't say is asked for, on a terminal.
    """
    from cascadia.files.text import write_whole
    from cascadia.planner.spec.file import parse_spec

    if path.is_dir():
        raise BadInput(str(path), "is a folder", f"name a file in it, e.g. {path / 'cascade.yaml'}")
    if path.exists() and not force:
        raise BadInput(str(path), "exists already", "add --force to overwrite it, or name another file")
    asker = Asker(silent=yes, deaf=output.json or not sys.stdin.isatty())
    stages = _stages(models, apis, asker)
    goal = goal or asker.later(f"Goal ({', '.join(GOALS)})", "latency", one_of(GOALS))
    usual = "chat" if goal == "quality" else NO_LEVELS
    levels = one_of(PRESETS if goal == "quality" else (*PRESETS, NO_LEVELS))
    question = f"Service levels ({', '.join([*PRESETS, NO_LEVELS])})"
    preset = preset or asker.later(question, usual, levels)
    answers = Answers(
        models=stages,
        goal=goal,
        preset=None if preset == NO_LEVELS else preset,
        gpu=asker.value("GPU", gpu, "h100-sxm", known_gpu),
        nodes=nodes or asker.ask("Nodes", "4", whole_number),
        gpus_per_node=gpus_per_node or asker.ask("GPUs in each node", "8", whole_number),
        judge=asker.value("Judge (embedding, certainty, or a model)", judge, "embedding", known_judge),
        trace=_from_spec(path, trace) or asker.ask("Trace", "trace.parquet", str),
        quality_table=_from_spec(path, quality_table) or asker.ask("Quality table", "quality.parquet", str),
        quality_min=_bar(goal, quality_min, asker),
        rate_rps=rate_rps,
    )
    text = spec_text(answers)
    spec = parse_spec(text, path.name)
    named = (None, None) if yes else (answers.trace, answers.quality_table)
    files = answers.trace if trace else named[0], answers.quality_table if quality_table else named[1]
    for note in check_files(path.parent, *files, [stage.name for stage in stages]):
        output.note(f"note: {note}")
    write_whole(path, text)
    output.show(f"wrote {path}; next: cascadia plan {shlex.quote(str(path))} --out plan/")
    output.document({"path": path, "spec": spec.model_dump(exclude_unset=True)})


def _from_spec(path: Path, file: str | None) -> str | None:
    """`file` as a spec at `path` names it: what is not beside the spec is looked for where the command runs."""
    if file is None or (path.parent / file).exists() or not Path(file).exists():
        return file
    return os.path.relpath(file, path.parent)


def _stages(models: tuple[str, ...], apis: tuple[str, ...], asker: Asker) -> tuple[Model | Api, ...]:
    if models or apis:
        return (*map(named_model, models), *map(named_api, apis))
    return asked_stages(asker)


def _bar(goal: str, given: float | None, asker: Asker) -> float | None:
    """Least quality; none is asked for where quality itself is to be large."""
    if given is not None or goal == "quality":
        return given
    return asker.ask("Least quality", "80", percent)

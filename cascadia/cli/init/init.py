"""`cascadia init`: a commented spec, by asking or from flags."""

import sys
from pathlib import Path

import click

from cascadia.cli.init.questions import (
    Asker,
    known_gpu,
    known_judge,
    known_model,
    named_model,
    percent,
    whole_number,
)
from cascadia.cli.init.template import Answers, Model, spec_text
from cascadia.cli.shared.options import number, positive, with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput

DEFAULT_MODELS = (
    Model("small", "meta-llama/Llama-3.1-8B-Instruct"),
    Model("large", "meta-llama/Llama-3.1-70B-Instruct"),
)


@click.command()
@click.argument("path", type=click.Path(path_type=Path), default="cascade.yaml")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME=MODEL",
    help="Model of a stage, small ones first; repeat it for each stage. Default: asked for.",
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
    help="Judge of the answers: embedding, certainty, or the model of a self-hosted LLM judge. "
    "Default: asked for.",
)
@click.option("--trace", help="Path of the workload trace, relative to the spec. Default: asked for.")
@click.option("--quality-table", help="Path of the quality table, relative to the spec. Default: asked for.")
@click.option(
    "--quality-min", type=number, help="Least mean quality of the answers, 0-100. Default: the spec's."
)
@click.option(
    "--rate",
    "rate_rps",
    type=positive,
    metavar="RPS",
    help="Mean rate that the trace is rescaled to, in requests/s. Default: the trace's own.",
)
@click.option("--yes", "-y", is_flag=True, help="Ask nothing and take defaults for what is not given.")
@click.option("--force", is_flag=True, help="Overwrite PATH if it exists.")
@with_output
def init(
    path: Path,
    models: tuple[str, ...],
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

    if path.exists() and not force:
        raise BadInput(str(path), "exists already", "add --force to overwrite it, or name another file")
    asker = Asker(silent=yes, deaf=output.json or not sys.stdin.isatty())
    answers = Answers(
        models=_models(models, asker),
        gpu=asker.value("GPU", gpu, "h100-sxm", known_gpu),
        nodes=nodes or asker.ask("Nodes", "4", whole_number),
        gpus_per_node=gpus_per_node or asker.ask("GPUs in each node", "8", whole_number),
        judge=asker.value("Judge (embedding, certainty, or a model)", judge, "embedding", known_judge),
        trace=trace or asker.ask("Trace", "trace.parquet", str),
        quality_table=quality_table or asker.ask("Quality table", "quality.parquet", str),
        quality_min=asker.ask("Least quality", "80", percent) if quality_min is None else quality_min,
        rate_rps=rate_rps,
    )
    text = spec_text(answers)
    spec = parse_spec(text, path.name)
    write_whole(path, text)
    output.show(f"wrote {path}; next: cascadia plan {path} --out plan/")
    output.document({"path": path, "spec": spec.model_dump(exclude_unset=True)})


def _models(given: tuple[str, ...], asker: Asker) -> tuple[Model, ...]:
    if given:
        return tuple(named_model(text) for text in given)
    return tuple(
        Model(name, asker.ask(f"Model of stage {name}", model, known_model)) for name, model in DEFAULT_MODELS
    )

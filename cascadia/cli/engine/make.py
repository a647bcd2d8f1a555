"""`cascadia engine make`: the bundled family of one-pass models, written as ONNX."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.judge.common import encoder_folder_of, encoder_option
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    from cascadia.onepass.model import Precision, Task

TASKS = ("classify", "rerank")
PRECISIONS = ("fp32", "int8")


@click.command()
@click.argument("out", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option(
    "--task",
    "tasks",
    multiple=True,
    type=click.Choice(TASKS),
    help="Task of the models; may be given several times. Default: classify.",
)
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    type=click.Choice(PRECISIONS),
    help="Number format of the models; may be given several times. Default: both.",
)
@encoder_option
@with_output
def make(
    out: Path,
    tasks: "tuple[Task, ...]",
    precisions: "tuple[Precision, ...]",
    encoder_folder: Path | None,
    output: Output,
) -> None:
    """Write a family of models of one task into FOLDER, a folder each: MiniLM cut after layers 1, 2, 4 and 6.

    The classifiers tell which of 16 services a request is about. What they have learned is bundled with Cascadia, so
    this takes seconds; the encoder (91 MB) is fetched once and verified.
    """
    from cascadia.onepass.family import make_family

    if not next(at for at in (out, *out.absolute().parents) if at.exists()).is_dir():
        raise BadInput(str(out), "is a file, or lies in one", "name a folder")
    encoder = encoder_folder_of(encoder_folder, output)
    made = []
    for folder in make_family(encoder, out, tasks or ("classify",), precisions or ("fp32", "int8")):
        made.append(str(folder))
        output.show(str(folder))
    output.document({"folders": made})

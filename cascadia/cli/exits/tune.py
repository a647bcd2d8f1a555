"""`cascadia exits tune`: other active ramps and settings for a model whose ramps are trained."""

from pathlib import Path

import click

from cascadia.cli.exits.common import (
    budget_option,
    chosen,
    promise_of,
    seen_by,
    texts_option,
    tokens_option,
    with_promise,
)
from cascadia.cli.exits.outputs import ramps_table
from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@texts_option
@with_promise
@budget_option
@tokens_option
@with_output
@ends_at_once
def tune(
    folder: Path,
    texts_file: Path,
    risk: float,
    confidence: float,
    ramp_budget: float,
    tokens_max: int,
    output: Output,
) -> None:
    """Choose active ramps and settings of the model in FOLDER anew, for another promise, budget or kind of text.

    The texts are ones that ramps were not trained on. Nothing is trained.
    """
    from cascadia.ramps.file import check_place, read_ramps, write_ramps
    from cascadia.ramps.texts import read_model, read_texts

    promise_of(risk, confidence)
    ramps, about = read_ramps(folder)
    reader, texts = read_model(folder, tokens_max), read_texts(texts_file)
    check_place(folder)
    with output.progress("running the model"):
        seen = seen_by(ramps, reader, texts)
    found = chosen(seen, ramps, about.timings, about.model_sha256, risk, ramp_budget)
    write_ramps(folder, ramps, found.about)
    output.show(ramps_table(found))
    output.document({"folder": str(folder), "expected_saving": found.saving, "ramps": found.about})

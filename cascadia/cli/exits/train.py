"""`cascadia exits train`: ramps for a model, trained on its own answers."""

from pathlib import Path

import click

from cascadia.cli.exits.common import (
    budget_option,
    chosen,
    looked,
    promise_of,
    texts_option,
    tokens_option,
    with_promise,
)
from cascadia.cli.exits.outputs import ramps_table
from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import Within, with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@texts_option
@click.option(
    "--held-out",
    type=Within(0.05, 0.9),
    default=0.25,
    show_default=True,
    help="Share of the texts kept to compare and calibrate ramps, 0.05 to 0.9; ramps are not trained "
    "on these.",
)
@with_promise
@budget_option
@tokens_option
@with_output
@ends_at_once
def train(
    folder: Path,
    texts_file: Path,
    held_out: float,
    risk: float,
    confidence: float,
    ramp_budget: float,
    tokens_max: int,
    output: Output,
) -> None:
    """Train ramps for the classifier in FOLDER (model.onnx, tokenizer.json) and choose which are active.

    Ramps stand at the graph's cut vertices, which are found. The model is not changed: ramps.json and
    ramps.safetensors are written beside it.
    """
    from cascadia.ramps.cuts import cuts
    from cascadia.ramps.file import check_place, digest, write_ramps
    from cascadia.ramps.measure import BATCHES, measured
    from cascadia.ramps.texts import MODEL, read_model, read_texts, typical
    from cascadia.ramps.train import fit, readings

    promise_of(risk, confidence)
    reader, texts = read_model(folder, tokens_max), read_texts(texts_file)
    check_place(folder)
    places = cuts(reader.model)
    if not places:
        raise BadInput(
            str(folder / MODEL), "has no place for a ramp", "name a model with layers one behind another"
        )
    kept = round(len(texts) * (1 - held_out))
    with output.progress("running the model"):
        seen = looked(reader, places, texts)
    with output.progress("training ramps"):
        try:
            ramps = fit(places, seen.take(slice(kept)))
        except ValueError as error:
            raise BadInput(str(texts_file), str(error), "give texts of several kinds") from None
    with output.progress("measuring"):
        timings = measured(reader.model, ramps, [reader.batch(typical(texts, size)) for size in BATCHES])
    fresh = readings(ramps, seen.take(slice(kept, None)))
    found = chosen(fresh, ramps, timings, digest(folder / MODEL), risk, ramp_budget)
    write_ramps(folder, ramps, found.about)
    output.show(ramps_table(found))
    output.document({"folder": str(folder), "expected_saving": found.saving, "ramps": found.about})

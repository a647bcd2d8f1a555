"""`cascadia exits simulate`: a stream of texts through a model's exits, certified while it goes on."""

from pathlib import Path

import click

from cascadia.cli.exits.common import (
    budget_option,
    promise_of,
    seen_by,
    shadow_option,
    texts_option,
    tokens_option,
    with_promise,
)
from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import with_output, with_own_seed
from cascadia.cli.shared.output import Output


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@texts_option
@with_promise
@budget_option
@shadow_option
@with_own_seed
@tokens_option
@with_output
@ends_at_once
def simulate(
    folder: Path,
    texts_file: Path,
    risk: float,
    confidence: float,
    ramp_budget: float,
    shadow: float,
    seed: int,
    tokens_max: int,
    output: Output,
) -> None:
    """Send texts, in their order, through the exits of the model in FOLDER, beside Apparate's own loop.

    Nothing leaves at the start; settings come into force as they are certified. Times are those measured in training.
    """
    import numpy as np
    from rich.table import Table

    from cascadia.exits.adjust import Budget
    from cascadia.exits.stream import by_apparate, by_certificate
    from cascadia.ramps.file import read_ramps
    from cascadia.ramps.texts import key_of, read_model, read_texts

    promise = promise_of(risk, confidence)
    ramps, about = read_ramps(folder)
    reader, texts = read_model(folder, tokens_max), read_texts(texts_file)
    with output.progress("running the model"):
        seen = seen_by(ramps, reader, texts)
    timing = about.timings[0]
    stays = np.random.default_rng(seed).random(len(seen)) < shadow
    keys = [key_of(reader.batch([text]), 0) for text in texts]
    ours = by_certificate(seen, timing, about.active, about.path, promise, stays, keys=keys).summary()
    theirs = by_apparate(seen, timing, Budget(about.timings, ramp_budget), risk).summary()
    table = Table(title=f"{len(seen)} texts; risk at most {risk:.2%} with probability {confidence:g}")
    for column in ("way", "time saved", "work saved", "differs", "certified after", "withdrawn"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for name, run in (("certified", ours), ("Apparate's loop", theirs)):
        table.add_row(
            name,
            f"{run.time_saved:.1%}",
            f"{run.work_saved:.1%}",
            f"{run.differs:.2%}",
            "–" if run.first_certified is None else str(run.first_certified),
            str(run.withdrawn),
        )
    output.show(table)
    output.document({"texts": len(seen), "certified": ours, "apparate": theirs})

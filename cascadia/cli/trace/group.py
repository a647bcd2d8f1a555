"""`cascadia trace`: look at workload traces, convert them, make them up, change their rate."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import Group, with_output, with_own_seed
from cascadia.cli.shared.output import Output
from cascadia.cli.shared.output_dir import Written
from cascadia.cli.trace.generate import generate

if TYPE_CHECKING:
    from cascadia.cli.shared.progress import Step
    from cascadia_traces.trace import Trace

FORMATS = ("azure", "mooncake", "qwen", "burstgpt", "splitwise", "vidur", "openai", "csv", "jsonl", "parquet")


@click.group(cls=Group)
def trace() -> None:
    """Look at workload traces, convert them, make them up, change their rate."""


trace.add_command(generate)


def _with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that reads a trace."""
    for option in (
        with_own_seed,
        click.option(
            "--spread/--no-spread",
            default=True,
            help="Lay requests whose times are rounded at random over that step, or leave them; "
            "Mooncake rounds to 3 s, BurstGPT and OpenAI logs to 1 s. Default: spread.",
        ),
        click.option(
            "--format",
            "format_",
            type=click.Choice(FORMATS),
            help="Format of the trace. Default: told from its content.",
        ),
    ):
        command = option(command)
    return command


@trace.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--plots", type=Written(), help="HTML file to write plots to. Default: none.")
@_with_reading
@with_output
@ends_at_once
def inspect(
    file: Path, plots: Path | None, format_: str | None, spread: bool, seed: int, output: Output
) -> None:
    """Show rate, burstiness, lengths and their correlation of the trace in FILE."""
    from cascadia.cli.trace.table import summary_tables
    from cascadia_traces.formats.reading import detect_format
    from cascadia_traces.statistics.stats import summarise

    kind = format_ or detect_format(file)
    with output.progress(f"reading {file.name}") as step:
        summary = summarise(_chunks(file, output, step, format_=kind, spread=spread, seed=seed))
    if plots is not None:
        from cascadia.cli.trace.plots import write_plots

        write_plots(plots, file.name, summary)
        output.note(f"plots: {plots}")
    output.show(summary_tables(file.name, kind, summary))
    output.document({"file": str(file), "format": kind, **summary.as_dict()})


@trace.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=Written())
@click.option("--sort", is_flag=True, help="Accept rows in any order (reads the whole trace into memory).")
@_with_reading
@with_output
@ends_at_once
def convert(
    source: Path, target: Path, sort: bool, format_: str | None, spread: bool, seed: int, output: Output
) -> None:
    """Write the trace IN in our own format to OUT: .parquet, .csv or .jsonl, the last two also with .gz."""
    from cascadia_traces.formats.reading import read_trace
    from cascadia_traces.formats.writing import write_trace

    options: dict[str, Any] = {"format": format_, "spread": spread, "seed": seed, "note": output.note}
    with output.progress(f"converting {source.name}") as step:
        if sort:
            requests = write_trace(read_trace(source, sort=True, **options), target)
        else:
            requests = write_trace(
                _chunks(source, output, step, format_=format_, spread=spread, seed=seed), target
            )
    _written(output, target, requests)


@trace.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=Written())
@click.option("--rate", "rate_rps", type=float, required=True, help="Mean rate to scale to, in requests/s.")
@_with_reading
@with_output
@ends_at_once
def scale(
    source: Path,
    target: Path,
    rate_rps: float,
    format_: str | None,
    spread: bool,
    seed: int,
    output: Output,
) -> None:
    """Write the trace IN to OUT with its arrival times stretched to a mean rate.

    IN is read twice: for its rate, then to write it.
    """
    from cascadia_traces.formats.writing import write_trace
    from cascadia_traces.generate.scaling import rate_span, scaled

    options: dict[str, Any] = {"format_": format_, "spread": spread, "seed": seed}
    with output.progress(f"measuring {source.name}") as step:
        span = rate_span(_chunks(source, output, step, **options))
    silent = Output(output.json, quiet=True)
    with output.progress(f"writing {target.name}") as step:
        requests = write_trace(scaled(_chunks(source, silent, step, **options), span, rate_rps), target)
    _written(output, target, requests, rate_rps=rate_rps, was_rps=span.rate_rps)


def _chunks(
    file: Path, output: Output, step: "Step", *, format_: str | None, spread: bool, seed: int
) -> "Iterator[Trace]":
    from cascadia_traces.formats.reading import iter_trace

    size = file.stat().st_size if file.is_file() else 0
    return iter_trace(
        file,
        format_,
        spread=spread,
        seed=seed,
        note=output.note,
        on_progress=lambda read: step(read / max(size, 1)),
    )


def _written(output: Output, target: Path, requests: int, **more: float) -> None:
    output.show(f"{target}: {requests:,} requests")
    output.document({"file": str(target), "requests": requests, **more})

"""`cascadia trace generate`: a made-up trace from a handful of numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cascadia.cli.interrupts import ends_at_once
from cascadia.cli.shared.options import refuse_ignored, with_output, with_own_seed
from cascadia.cli.shared.output import Output
from cascadia.cli.shared.output_dir import Written
from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    from cascadia.cli.shared.progress import Step
    from cascadia_traces.generate.arrivals import Arrivals
    from cascadia_traces.generate.lengths import Lengths, Marginal
    from cascadia_traces.trace import Trace

KINDS = {
    "poisson": (),
    "gamma": ("cv",),
    "on-off": ("cv", "on_s", "off_s", "off_share"),
    "diurnal": ("cv", "amplitude", "period_s"),
    "steps": ("cv", "steps"),
}
"""Which options go with which arrivals."""


@click.command()
@click.argument("target", metavar="OUT", type=Written())
@click.option(
    "--arrivals",
    "kind",
    type=click.Choice(tuple(KINDS)),
    default="poisson",
    show_default=True,
    help="Process of the arrivals; constant rate (poisson, gamma), by day and night, in bursts, or in steps.",
)
@click.option(
    "--rate", "rate_rps", type=float, help="Mean rate in requests/s. Required, unless --arrivals steps."
)
@click.option(
    "--cv",
    type=float,
    help="Coefficient of variation of the gaps at constant rate; 1 is Poisson. Default: 1.",
)
@click.option("--on-s", type=float, help="Mean length of a burst in seconds. Default: 30.")
@click.option("--off-s", type=float, help="Mean time between bursts in seconds. Default: 90.")
@click.option(
    "--off-share", type=float, help="Rate between bursts as a share of that within, 0-1. Default: 0."
)
@click.option(
    "--amplitude", type=float, help="Amplitude of the diurnal wave as a share of the mean, 0-1. Default: 0.5."
)
@click.option("--period-s", type=float, help="Period of the diurnal wave in seconds. Default: 86400.")
@click.option(
    "--steps",
    help="Steps of the rate (seconds:requests/s), repeated for ever, as in 60:5,60:20. Required by "
    "--arrivals steps.",
)
@click.option(
    "--requests", type=int, help="Number of requests. Default: 10000, unless --duration-s is given."
)
@click.option("--duration-s", type=float, help="Seconds after which the trace stops. Default: none.")
@click.option(
    "--input",
    "input_",
    default="lognormal:500:1",
    show_default=True,
    metavar="LENGTHS",
    help="Distribution of the prompts' lengths in tokens.",
)
@click.option(
    "--output",
    "output_",
    default="lognormal:200:0.8",
    show_default=True,
    metavar="LENGTHS",
    help="Distribution of the answers' lengths in tokens.",
)
@click.option(
    "--correlation",
    type=float,
    default=0.0,
    show_default=True,
    help="Correlation of the lengths' normal scores, -1 to 1.",
)
@click.option(
    "--lengths-from",
    type=click.Path(path_type=Path),
    help="Trace to draw both lengths from. Default: none; --input and --output say.",
)
@with_own_seed
@with_output
@ends_at_once
def generate(
    target: Path, requests: int | None, duration_s: float | None, seed: int, output: Output, **options: Any
) -> None:
    """Write a generated trace to OUT: .parquet, .csv or .jsonl, the last two also with .gz.

    LENGTHS is lognormal:MEDIAN:SIGMA[:MAX], zipf:EXPONENT[:MAX] or empirical:FILE, a trace whose lengths are
    drawn. The same options and seed give the same trace.
    """
    from cascadia_traces.formats.writing import write_trace
    from cascadia_traces.generate.generate import generate_chunks

    if requests is None and duration_s is None:
        requests = 10_000
    with _told_by_flags(), output.progress(f"generating {target.name}") as step:
        chunks = generate_chunks(
            _arrivals(**options),
            _lengths(**options),
            seed,
            requests=requests,
            duration_s=duration_s,
            rows=250_000,
        )
        written = write_trace(_counted(chunks, requests, duration_s, step), target)
    output.show(f"{target}: {written:,} requests")
    output.document({"file": str(target), "requests": written, "seed": seed})


@contextmanager
def _told_by_flags() -> "Iterator[None]":
    """Names the flag, where the generator names its own argument."""
    from cascadia_traces import errors as trace_errors

    flags = {param.name: param.opts[0] for param in click.get_current_context().command.params}
    try:
        yield
    except trace_errors.BadInput as error:
        raise BadInput(flags.get(error.where, error.where), error.what, error.instead) from None


def _arrivals(kind: str, rate_rps: float | None, **options: Any) -> "Arrivals":
    from cascadia_traces.generate.arrivals import Arrivals
    from cascadia_traces.generate.rates import Constant, Diurnal, OnOff, Rate, Steps

    every = {name for names in KINDS.values() for name in names}
    given = {name: options[name] for name in every if options[name] is not None}
    for name in sorted(given.keys() - set(KINDS[kind])):
        fitting = ", ".join(other for other, names in KINDS.items() if name in names)
        raise BadInput(_flag(name), f"means nothing with --arrivals {kind}", f"use it with {fitting}")
    cv = given.pop("cv", 1.0)
    rate: Rate
    if kind == "steps":
        if rate_rps is not None:
            raise BadInput("--rate", "means nothing with --arrivals steps", "give rates in --steps")
        rate = Steps(_steps(given.get("steps", "")))
    elif rate_rps is None:
        raise BadInput("--rate", "is missing", "give the mean number of requests/s")
    else:
        rate = {"on-off": OnOff, "diurnal": Diurnal}.get(kind, Constant)(rate_rps, **given)
    return Arrivals(rate, cv)


def _lengths(input_: str, output_: str, correlation: float, lengths_from: Path | None, **_: Any) -> "Lengths":
    from cascadia_traces.generate.lengths import Correlated, Resampled

    if lengths_from is not None:
        refuse_ignored(
            ("input_", "output_", "correlation"), "with --lengths-from, which both lengths are drawn from"
        )
        from cascadia_traces.formats.reading import read_trace

        return Resampled(read_trace(lengths_from))
    return Correlated(
        _marginal("--input", input_, "input_tokens"),
        _marginal("--output", output_, "output_tokens"),
        correlation,
    )


def _marginal(flag: str, text: str, column: str) -> "Marginal":
    from cascadia_traces.generate.lengths import Empirical, Lognormal, Zipf

    name, _, rest = text.partition(":")
    if name == "empirical" and rest:
        from cascadia_traces.formats.reading import read_trace

        return Empirical(getattr(read_trace(rest), column))
    numbers = _numbers(flag, rest) if rest else []
    if name == "lognormal" and len(numbers) in (2, 3):
        return Lognormal(numbers[0], numbers[1], *_whole(flag, numbers[2:]))
    if name == "zipf" and len(numbers) in (1, 2):
        return Zipf(numbers[0], *_whole(flag, numbers[1:]))
    raise BadInput(flag, f"{text!r} is no distribution", "write it like lognormal:500:1 or zipf:1.2:8192")


def _steps(text: str) -> tuple[tuple[float, float], ...]:
    steps = []
    for step in text.split(","):
        numbers = _numbers("--steps", step)
        if len(numbers) != 2:
            raise BadInput("--steps", f"{step!r} is no step", "write DURATION_S:RATE,..., as in 60:5,60:20")
        steps.append((numbers[0], numbers[1]))
    return tuple(steps)


def _numbers(flag: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(":")]
    except ValueError as error:
        raise BadInput(flag, f"{text!r} is not made of numbers", "put : between them, as in 60:5") from error


def _whole(flag: str, numbers: list[float]) -> list[int]:
    if not all(number.is_integer() for number in numbers):
        raise BadInput(flag, f"{numbers[0]:g} is not a whole number", "write the largest length in tokens")
    return [int(number) for number in numbers]


def _counted(
    chunks: "Iterator[Trace]", requests: int | None, duration_s: float | None, step: "Step"
) -> "Iterator[Trace]":
    made = 0
    for chunk in chunks:
        yield chunk
        made += len(chunk)
        by_time = 0.0 if duration_s is None else float(chunk.arrival_s[-1]) / duration_s
        step(max(by_time, 0.0 if requests is None else made / requests))


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")

"""Options that several commands have, and types of options."""

from collections.abc import Callable
from functools import wraps
from math import isfinite, nan
from typing import Any

import click

from cascadia.cli.shared.output import Output


def with_output(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --json and --quiet; `command` gets them as its keyword argument `output`."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
    @click.option("--quiet", "-q", is_flag=True, help="Print no progress, notes or summary.")
    @wraps(command)
    def wrapper(*args: Any, as_json: bool, quiet: bool, **options: Any) -> None:
        command(*args, output=Output(json=as_json, quiet=quiet), **options)

    return wrapper


def number(text: str) -> float:
    """A finite number, as the type of an option."""
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not isfinite(value):
        raise click.BadParameter(f"{text!r} is not a finite number")
    return value


def positive(text: str) -> float:
    """A finite number above 0, as the type of an option."""
    value = number(text)
    if value <= 0:
        raise click.BadParameter(f"{text} is not above 0")
    return value


def share(text: str) -> float:
    """`3%` or `0.03`, 0 to 1, as the type of an option."""
    value = number(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    if not 0 <= value <= 1:
        raise click.BadParameter(f"{text} is not between 0 and 100%")
    return value


def gear_count(text: str) -> int:
    """A number of gears, or `off` for one, as the type of an option."""
    if text == "off":
        return 1
    if not text.isdecimal() or not 1 <= len(text) <= 2 or not 1 <= int(text) <= 64:
        raise click.BadParameter(f"{text!r} is neither a number from 1 to 64 nor off")
    return int(text)


# Stand-ins for the spec's own values.
with_gpus = click.option(
    "--gpus",
    multiple=True,
    metavar="[POOL=]N",
    help="Number of GPUs, of the pool named where there are several. Default: the spec's.",
)

with_rate = click.option(
    "--rate",
    "rate_rps",
    type=positive,
    metavar="RPS",
    help="Mean arrival rate to plan for, in requests/s. Default: the spec's, else the trace's own.",
)

with_quality_min = click.option(
    "--quality-min",
    type=number,
    metavar="Q",
    help="Least mean quality of the answers, 0-100. Default: the spec's.",
)

with_seed = click.option(
    "--seed", type=int, help="Seed of everything drawn at random, a whole number. Default: the spec's."
)

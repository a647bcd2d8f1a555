"""Options that several commands have, and types of options."""

import re
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from math import isfinite
from typing import Any

import click
from click.core import ParameterSource

from cascadia.cli.shared.output import Output
from cascadia.cli.shared.output_dir import keep_others
from cascadia.domain.errors import BadInput
from cascadia.domain.objective import Level, Metric
from cascadia.files.written import written_number


class Group(click.Group):
    """Lists its commands with their first sentences, which click's own cuts after some words."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        listed = [(name, command.get_short_help_str(sys.maxsize)) for name, command in found if command]
        with formatter.section("Commands"):
            formatter.write_dl(listed)


GIVEN = "cascadia.given"


class AsGiven(click.Command):
    """Keeps its arguments as they were given, as `meta[GIVEN]`: values tell no longer how they were written."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[GIVEN] = tuple(args)
        return super().parse_args(ctx, args)


def with_output(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --json and --quiet; `command` gets them as its keyword argument `output`, and begins only where it writes
    over nothing that it reads."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
    @click.option("--quiet", "-q", is_flag=True, help="Print no progress, notes or summary.")
    @wraps(command)
    def wrapper(*args: Any, as_json: bool, quiet: bool, **options: Any) -> None:
        keep_others(click.get_current_context())
        command(*args, output=Output(json=as_json, quiet=quiet), **options)

    return wrapper


def refuse_ignored(names: Sequence[str], where: str, instead: str = "leave one of them out") -> None:
    """Raises `BadInput` for the first of the current command's options `names` that was given: it means nothing
    `where`, and would be ignored."""
    context = click.get_current_context()
    for param in context.command.params:
        given = context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if given and param.name in names:
            raise BadInput(param.opts[0], f"means nothing {where}", instead)


class Within(click.FloatRange):
    """Numbers from one to another. NaN is on no side of either, so that click's own range lets it in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not isfinite(found):
            self.fail(f"{value} is not a finite number", param, ctx)
        return found


def number(text: str) -> float:
    """A finite number, as the type of an option."""
    # Defaults come as numbers.
    value = written_number(str(text))
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


_NUMBER = re.compile(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", re.IGNORECASE).fullmatch
_METRICS: dict[str, Metric] = {"ttft": "ttft", "tpot": "tpot", "e2el": "e2e", "e2e": "e2e"}


def goodput(text: str) -> tuple[Level, ...]:
    """`ttft:500 tpot:50 e2el:20000` in milliseconds, as vLLM's benchmark has it, each with `@p99` where it is not of
    p95; the type of an option."""
    return tuple(_level(part) for part in text.replace(",", " ").split())


def _level(text: str) -> Level:
    name, _, rest = text.partition(":")
    limit, _, share = rest.partition("@")
    if name not in _METRICS or (share and not share.startswith("p")):
        raise click.BadParameter(
            f"{text!r} is not METRIC:MS or METRIC:MS@pNN, with ttft, tpot or e2el as METRIC"
        )
    quantile = positive(share[1:]) / 100 if share else 0.95
    if quantile < 0.01:
        raise click.BadParameter(f"{share} is below p1; did you mean p{100 * positive(share[1:]):g}?")
    if quantile >= 1:
        raise click.BadParameter(f"{share} is not below p100")
    if not _NUMBER(limit):
        raise click.BadParameter(f"{limit!r} is not a number of milliseconds, as in {name}:500")
    return Level(_METRICS[name], quantile, positive(limit) / 1000)


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
    help="Number of GPUs; name the pool where there are several. Default: the spec's.",
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

with_goodput = click.option(
    "--goodput",
    "levels",
    type=goodput,
    multiple=True,
    metavar="METRIC:MS[@pNN]",
    help="Service level to keep, in milliseconds, at p95 unless told: ttft:500, tpot:50, "
    "e2el:20000@p99; tpot is per output token, e2el the whole answer. Several may be given. "
    "Default: the spec's.",
)

_SEED = "Seed of everything drawn at random, a whole number."
seed = click.IntRange(0, 2**32 - 1)
with_seed = click.option("--seed", type=seed, help=f"{_SEED} Default: the spec's.")
with_own_seed = click.option("--seed", type=seed, default=0, show_default=True, help=_SEED)

"""Parts that the commands of `cascadia exits` share: their options, and readings of a model's ramps."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cascadia.cli.shared.options import share
from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    from cascadia.exits.certify import Promise
    from cascadia.exits.readings import Readings
    from cascadia.exits.timing import Timing
    from cascadia.ramps.cuts import Cut
    from cascadia.ramps.file import About
    from cascadia.ramps.ramp import Ramp
    from cascadia.ramps.texts import Reader
    from cascadia.ramps.train import Seen

AT_ONCE = 32

texts_option = click.option(
    "--texts",
    "texts_file",
    required=True,
    type=click.Path(path_type=Path),
    help="File of texts, one a line, or .jsonl with `text`; as the model meets them. No labels: the "
    "model gives them.",
)
tokens_option = click.option(
    "--tokens",
    "tokens_max",
    type=click.IntRange(8, 8192),
    default=128,
    show_default=True,
    help="Number of tokens that are read of a text, at most.",
)


def with_promise(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --risk and --confidence."""
    command = click.option(
        "--confidence",
        type=share,
        default="0.9",
        show_default=True,
        help="Probability with which the risk is kept; above 0 and below 1.",
    )(command)
    return click.option(
        "--risk",
        type=share,
        default="1%",
        show_default=True,
        help="Share of the answers that may differ from the whole model's; above 0 and below 100%.",
    )(command)


budget_option = click.option(
    "--ramp-budget",
    type=share,
    default="2%",
    show_default=True,
    help="Share of a pass's time that ramps may add; measured on inputs that leave at none, at every "
    "batch size.",
)

shadow_option = click.option(
    "--shadow",
    type=share,
    default="10%",
    show_default=True,
    help="Share of the inputs that run to the end, drawn beforehand; 100% saves time alone, no work.",
)


def promise_of(risk: float, confidence: float) -> "Promise":
    from cascadia.exits.certify import Promise

    try:
        return Promise(risk, confidence)
    except ValueError as error:
        raise BadInput("--risk, --confidence", str(error), "give e.g. 1% and 0.9") from None


class Chosen(NamedTuple):
    """Ramps, settings and figures that `tune` and `train` write and show."""

    about: "About"
    saving: float


def chosen(
    seen: "Readings",
    ramps: "Sequence[Ramp]",
    timings: "tuple[Timing, ...]",
    sha256: str,
    risk: float,
    budget: float,
) -> Chosen:
    """Active ramps and their settings, from readings that no ramp was trained on."""
    from cascadia.exits.adjust import Budget
    from cascadia.exits.choose import expected, path_of
    from cascadia.ramps.file import About

    active, path = path_of(seen, timings[0], risk, Budget(timings, budget))
    about = About(
        model_sha256=sha256,
        tensors=tuple(ramp.tensor for ramp in ramps),
        shares=tuple(ramp.share for ramp in ramps),
        agreement=tuple((1.0 - seen.wrong.mean(axis=0)).tolist()),
        texts=len(seen),
        active=active,
        thresholds=tuple(tuple(row) for row in path.thresholds.tolist()),
        differed=() if path.differed is None else tuple(path.differed.tolist()),
        timings=timings,
    )
    return Chosen(about, expected(seen, timings[0], risk, active).mean)


def seen_by(ramps: "Sequence[Ramp]", reader: "Reader", texts: Sequence[str]) -> "Readings":
    """Readings of all ramps on `texts`."""
    from cascadia.ramps.cuts import Cut
    from cascadia.ramps.train import readings

    return readings(ramps, looked(reader, [Cut(ramp.tensor, ramp.share) for ramp in ramps], texts))


def looked(reader: "Reader", places: "Sequence[Cut]", texts: Sequence[str]) -> "Seen":
    """Vectors that ramps at `places` would look at. Raises `BadInput` where the model does not take the texts."""
    from cascadia.ramps.train import CannotRun, look

    try:
        return look(reader.model, places, reader.batches(texts, AT_ONCE))
    except CannotRun as error:
        told = f"the model cannot run on these texts, read up to {reader.tokens_max} tokens ({error})"
        raise BadInput("--tokens", told, "give as few as it reads") from None

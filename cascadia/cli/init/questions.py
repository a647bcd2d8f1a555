"""Questions that `cascadia init` asks, and what it accepts as answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import click

from cascadia.cli.init.template import Model
from cascadia.cli.shared.errors import one_line
from cascadia.domain.errors import BadInput
from cascadia.domain.objective import bar_meant

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asker:
    """`silent`: take every default. `deaf`: nobody is there to answer, so a question is an error."""

    silent: bool
    deaf: bool
    prompt: Callable[[str, str], str] = lambda question, default: click.prompt(
        question, default=default, err=True
    )

    def ask(self, question: str, default: str, read: Callable[[str], T]) -> T:
        """The first answer that `read` accepts; it raises `ValueError` or `BadInput` for others."""
        if self.silent:
            return read(default)
        if self.deaf:
            raise click.UsageError(f"nobody to ask for {question!r}; give flags, or --yes for defaults")
        while True:
            try:
                return read(self.prompt(question, default))
            except (BadInput, ValueError) as error:
                click.echo(one_line(str(error)), err=True)

    def value(self, question: str, given: str | None, default: str, read: Callable[[str], T]) -> T:
        """Value that the flag gives, else what is asked for."""
        return self.ask(question, default, read) if given is None else read(given)


def known_gpu(name: str) -> str:
    from cascadia_sim.hardware.catalogue import gpu

    gpu(name)
    return name


def known_model(model: str) -> str:
    """A name of the catalogue, or something that looks like a path: whether that exists, `plan` says."""
    if model.endswith(".json") or model.startswith((".", "/", "~")):
        return model
    from cascadia_sim.models.catalogue import architecture

    architecture(model)
    return model


def known_judge(judge: str) -> str:
    return judge if judge in ("embedding", "certainty") else known_model(judge)


def named_model(text: str) -> Model:
    name, equals, model = text.partition("=")
    if not (name and equals and model):
        example = "small=meta-llama/Llama-3.1-8B-Instruct"
        raise BadInput("--model", f"{text!r} is not NAME=MODEL", f"write e.g. {example}")
    return Model(name, known_model(model))


def whole_number(text: str) -> int:
    number = int(text) if text.strip().isdecimal() and len(text) < 7 else 0
    if number < 1:
        raise ValueError(f"{text!r} is not a whole number above 0")
    return number


def percent(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 100:
        raise ValueError(f"{text} is not within 0-100")
    if (meant := bar_meant(number)) is not None:
        raise ValueError(f"{text} is {number:g} of 100; did you mean {meant:g}?")
    return number

"""Questions that `cascadia init` asks, and what it accepts as answers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import TypeVar

import click

from cascadia.cli.init.template import Api, Model
from cascadia.cli.shared.errors import one_line
from cascadia.domain.errors import BadInput
from cascadia.domain.names import name_fault
from cascadia.domain.objective import bar_meant
from cascadia.files.written import written_number
from cascadia_sim import errors as sim_errors

T = TypeVar("T")

_SMALL, _MEDIUM, _LARGE = (f"meta-llama/Llama-3.1-{size}-Instruct" for size in ("8B", "70B", "405B"))
_TINY, _MIDDLE = "Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-32B-Instruct"
USUAL: dict[int, tuple[tuple[str, str], ...]] = {
    1: (("large", _MEDIUM),),
    2: (("small", _SMALL), ("large", _MEDIUM)),
    3: (("small", _SMALL), ("medium", _MEDIUM), ("large", _LARGE)),
    4: (("tiny", _TINY), ("small", _SMALL), ("medium", _MEDIUM), ("large", _LARGE)),
    5: (("tiny", _TINY), ("small", _SMALL), ("middle", _MIDDLE), ("medium", _MEDIUM), ("large", _LARGE)),
}
"""Names and models that are offered, by the number of stages."""


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
            except (BadInput, sim_errors.BadInput, ValueError) as error:
                click.echo(one_line(str(error)), err=True)

    def later(self, question: str, default: str, read: Callable[[str], T]) -> T:
        """Asks like `ask`, of what older command lines do not say: where nobody is there, the default."""
        return read(default) if self.deaf else self.ask(question, default, read)

    def value(self, question: str, given: str | None, default: str, read: Callable[[str], T]) -> T:
        """Value that the flag gives, else what is asked for."""
        return self.ask(question, default, read) if given is None else read(given)


def stage_name(text: str) -> str:
    if (fault := name_fault(text)) is not None:
        raise ValueError(fault)
    return text


@contextmanager
def _told_by(flag: str) -> Iterator[None]:
    try:
        yield
    except sim_errors.BadInput as error:
        raise BadInput(flag, error.what, error.instead) from None


def known_gpu(name: str) -> str:
    from cascadia_sim.hardware.catalogue import gpu

    with _told_by("--gpu"):
        gpu(name)
    return name


def known_model(model: str, flag: str = "--model") -> str:
    """A name of the catalogue, or something that looks like a path: whether that exists, `plan` says."""
    if model.endswith(".json") or model.startswith((".", "/", "~")):
        return model
    from cascadia_sim.models.catalogue import architecture

    with _told_by(flag):
        architecture(model)
    return model


def known_judge(judge: str) -> str:
    return judge if judge in ("embedding", "certainty") else known_model(judge, "--judge")


def named_model(text: str) -> Model:
    name, equals, model = text.partition("=")
    if not (name and equals and model):
        example = "small=meta-llama/Llama-3.1-8B-Instruct"
        raise BadInput("--model", f"{text!r} is not NAME=MODEL", f"write e.g. {example}")
    return Model(name, known_model(model))


def named_api(text: str) -> Api:
    """`NAME=MODEL,IN,OUT,TTFT,TPOT[,RPM]`."""
    name, _, rest = text.partition("=")
    model, *figures = rest.split(",")
    numbers, limits = [written_number(figure) for figure in figures[:4]], figures[4:]
    whole = name and model and len(numbers) == 4 and len(limits) <= 1
    if not whole or not all(0 <= one < inf for one in numbers) or not all(map(_is_whole_number, limits)):
        example = "frontier=any-name,2.5,10,0.6,0.012,600"
        raise BadInput(
            "--external", f"{text!r} is not NAME=MODEL,IN,OUT,TTFT,TPOT[,RPM]", f"write e.g. {example}"
        )
    usd_in, usd_out, ttft_s, tpot_s = numbers
    return Api(
        name,
        model,
        usd_in=usd_in,
        usd_out=usd_out,
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        per_minute=whole_number(limits[0]) if limits else None,
    )


def not_negative(text: str) -> float:
    number = written_number(text)
    if not 0 <= number < 1e6:
        raise ValueError(f"{text!r} is not a number from 0 up")
    return number


def limit(text: str) -> int | None:
    """None for 0."""
    return None if text.strip() == "0" else whole_number(text)


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """Reader that accepts one of these."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is none of {', '.join(choices)}")
        return text

    return read


def asked_stages(asker: Asker) -> tuple[Model | Api, ...]:
    """Stages from small to large, of any number that a cascade may have."""
    count = asker.ask(
        "Number of stages (1-5)", "2", lambda text: int(one_of(("1", "2", "3", "4", "5"))(text))
    )
    return tuple(_asked_stage(asker, name, model) for name, model in USUAL[count])


def _asked_stage(asker: Asker, name: str, usual: str) -> Model | Api:
    name = asker.ask("Name of the next stage, from small to large", name, stage_name)
    model = asker.ask(f"Model of stage {name}, or external for somebody's API", usual, _known_or_external)
    if model != "external":
        return Model(name, model)
    return Api(
        name,
        asker.ask("  the API's name of its model", "any-name", str),
        usd_in=asker.ask("  USD per million input tokens", "2.5", not_negative),
        usd_out=asker.ask("  USD per million output tokens", "10", not_negative),
        ttft_s=asker.ask("  its median time to the first token, seconds", "0.6", not_negative),
        tpot_s=asker.ask("  its median time per output token, seconds", "0.012", not_negative),
        per_minute=asker.ask("  its requests per minute (0: no limit)", "0", limit),
    )


def _known_or_external(text: str) -> str:
    return text if text == "external" else known_model(text)


def whole_number(text: str) -> int:
    if not _is_whole_number(text):
        raise ValueError(f"{text!r} is not a whole number above 0")
    return int(text)


def _is_whole_number(text: str) -> bool:
    return text.isascii() and text.strip().isdecimal() and len(text) < 10 and int(text) > 0


def percent(text: str) -> float:
    number = written_number(text)
    if not 0 <= number <= 100:
        raise ValueError(f"{text} is not within 0-100")
    if (meant := bar_meant(number)) is not None:
        raise ValueError(f"{text} is {number:g} of 100; did you mean {meant:g}?")
    return number

"""The help of every option stands alone: what it is, its unit, its default."""

from collections.abc import Iterator

import click
import pytest

from cascadia.cli.main import COMMANDS, main
from tests.unit.cli.commands import run
from tests.unit.test_docstrings import OPENER

FEWEST_WORDS = 4
UNITS = {"S": "second", "RPS": "requests/s", "TOKENS": "token", "USD": "dollar"}
"""What a value's name in the usage line stands for."""


def commands(path: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(main)
    for name in COMMANDS if group is main else group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(f"{path} {name}", command)
        else:
            yield f"{path} {name}", command


OPTIONS = [
    pytest.param(option, id=f"{path} {option.opts[0]}")
    for path, command in commands("cascadia", main)
    for option in command.params
    if isinstance(option, click.Option)
]


@pytest.mark.parametrize("option", OPTIONS)
def test_help_is_a_sentence_that_stands_alone(option: click.Option) -> None:
    text = option.help or ""
    assert len(text.split()) >= FEWEST_WORDS
    assert text[0].isupper()
    assert not OPENER.match(text)
    assert text.endswith(".")


@pytest.mark.parametrize("option", [p for p in OPTIONS if not p.values[0].is_flag])
def test_help_tells_the_unit_and_what_holds_without_the_option(option: click.Option) -> None:
    text = option.help or ""
    assert option.required or option.show_default or "Default: " in text or "Required" in text
    assert UNITS.get(option.metavar or "", "") in text.lower()


@pytest.mark.parametrize("option", OPTIONS)
def test_help_tells_one_default(option: click.Option) -> None:
    assert (option.help or "").count("Default:") + bool(option.show_default) <= 1


@pytest.mark.parametrize("option", [p for p in OPTIONS if isinstance(p.values[0].type, click.FloatRange)])
@pytest.mark.parametrize("text", ["nan", "inf"])
def test_what_is_no_number_is_in_no_range(option: click.Option, text: str) -> None:
    with pytest.raises(click.UsageError):
        option.type.convert(text, option, click.Context(click.Command("some")))


def test_all_commands_were_seen() -> None:
    assert len(OPTIONS) > 200


@pytest.mark.parametrize(
    "name",
    [name for name in COMMANDS if isinstance(main.get_command(click.Context(main), name), click.Group)],
)
def test_a_group_lists_its_commands_with_whole_sentences(name: str) -> None:
    listed = run(name, "--help").stdout.partition("Commands:\n")[2]
    assert listed
    assert "..." not in listed

"""What the how-to shows is accepted: its commands are parsed, its prompts are read."""

import re
import shlex
from pathlib import Path

import click
import pytest

from cascadia.cli.main import main
from cascadia.planner.problem.quality_file import read_quality
from cascadia.profile.quality.prompts import read_prompts
from tests.data import ROOT

PAGE = (ROOT / "docs" / "how-to" / "measure-quality.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


COMMANDS = [line[2:] for block in blocks("console") for line in block.splitlines()]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_shown_command_is_understood(line: str) -> None:
    command: click.Command = main
    context, args = click.Context(main), shlex.split(line)[1:]
    while isinstance(command, click.Group):
        _, found, args = command.resolve_command(context, args)
        assert found is not None
        command = found
    command.make_context(line, args)


def test_the_shown_prompts_are_prompts(tmp_path: Path) -> None:
    (text,) = blocks("json")
    (tmp_path / "prompts.jsonl").write_text(text)
    prompts = read_prompts(tmp_path / "prompts.jsonl", None)
    assert [prompt.check for prompt in prompts] == ["exact", "json-schema", None]


def test_the_shown_table_is_valid(tmp_path: Path) -> None:
    (text,) = blocks("csv")
    (tmp_path / "quality.csv").write_text(text)
    assert len(read_quality(tmp_path / "quality.csv", ("small", "large"))) == 1

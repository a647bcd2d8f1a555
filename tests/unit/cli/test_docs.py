"""What the how-to shows is accepted: its commands are parsed, its table is read."""

import re
import shlex
from pathlib import Path

import click
import pytest

from cascadia.cli.main import main
from cascadia.planner.problem.quality_file import read_quality
from cascadia.planner.spec.file import parse_spec
from tests.data import ROOT

PAGE = (ROOT / "docs" / "how-to" / "first-plan.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


COMMANDS = [line[2:] for block in blocks("console") for line in block.splitlines()]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_shown_command_is_understood(line: str) -> None:
    program, *args = shlex.split(line)
    assert program == "cascadia"
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        _, found, args = command.resolve_command(context, args)
        assert found is not None
        command = found
    command.make_context(line, args)


def test_the_shown_spec_is_valid() -> None:
    (text,) = blocks("yaml")
    assert [stage.name for stage in parse_spec(text, "cascade.yaml").stages] == ["small", "large"]


def test_the_shown_table_is_valid(tmp_path: Path) -> None:
    (text,) = blocks("csv")
    (tmp_path / "quality.csv").write_text(text)
    assert len(read_quality(tmp_path / "quality.csv", ("small", "large"))) == 2


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", PAGE)
    assert links
    missing = [link for link in links if not (ROOT / "docs" / "how-to" / link).exists()]
    assert missing == []

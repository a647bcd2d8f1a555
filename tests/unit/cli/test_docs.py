"""What pages show is accepted: commands and options are there; the first how-to can be followed."""

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


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"```[^\n]*\n(.*?)```|`([^`\n]+)`", re.DOTALL)
SHOWN = re.compile(r"^\s*(?:\$ )?cascadia ((?:[a-z]|--)[^\n|;&#`]*)", re.MULTILINE)
OPTION = re.compile(r"(?<!\S)--?[a-z][a-z-]*")


def shown_commands() -> list[tuple[str, str]]:
    """Place and words of every command of ours that a page shows, in a block or in a line."""
    found = []
    for page in PAGES:
        for block, span in CODE.findall(page.read_text()):
            text = re.sub(r"\\\n>?\s*", "", block or span)
            found += [(str(page.relative_to(ROOT)), words) for words in SHOWN.findall(text)]
    return found


def test_every_command_and_option_on_a_page_is_there() -> None:
    shown, unknown = shown_commands(), []
    assert len(shown) > 200
    for place, words in shown:
        command, given = main, words.split(" -- ")[0].split()
        context = click.Context(main)
        while (
            isinstance(command, click.Group) and given and (found := command.get_command(context, given[0]))
        ):
            command, given = found, given[1:]
        known = {
            name for param in command.get_params(context) for name in (*param.opts, *param.secondary_opts)
        }
        absent = [option for option in OPTION.findall(" ".join(given)) if option not in known]
        if command is main and not words.startswith("-"):
            absent.append(words.split()[0])
        unknown += [f"{place}: cascadia {words}: {', '.join(absent)}"] if absent else []
    assert unknown == []


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

"""What pages show is accepted: commands and options are there."""

import re

import click

from cascadia.cli.main import main
from tests.data import ROOT

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

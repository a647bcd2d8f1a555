"""The glossary is short, says each word once, and pages and help do without the words that it puts aside."""

import re

import click

from cascadia.cli.main import main
from tests.data import ROOT
from tests.unit.cli.test_help import commands

PAGE = (ROOT / "docs" / "glossary.md").read_text()
MOST_WORDS = 900
ENTRIES = re.findall(r"^- \*\*(.+?)\*\*", PAGE, re.MULTILINE)
PUT_ASIDE = [word for words in re.findall(r"\*Not: (.+?)\.\*", PAGE) for word in words.split(", ")]


def test_the_glossary_is_short_and_says_each_word_once() -> None:
    assert len(PAGE.split()) <= MOST_WORDS
    assert len(ENTRIES) == len(set(ENTRIES)) > 40


def test_pages_and_help_obey_it() -> None:
    texts = {
        str(path.relative_to(ROOT)): path.read_text()
        for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        if path.name != "glossary.md"
    }
    for path, command in commands("cascadia", main):
        helps = [option.help or "" for option in command.params if isinstance(option, click.Option)]
        texts[path] = "\n".join([command.help or "", *helps])
    assert PUT_ASIDE
    for place, text in texts.items():
        for word in PUT_ASIDE:
            assert word not in " ".join(text.lower().split()), place

"""What holds for all pages: they are short, lead somewhere, and build into a site that asks nothing of the network."""

import csv
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.data import ROOT

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
MOST_WORDS, README_WORDS = 55_260, 1_000
"""Of all pages together, and of the first: a page that is added takes its words from others."""

DATA = sorted((ROOT / "docs").rglob("data/*.csv"))

FETCHED = re.compile(r"""<(?:script|link|img|iframe)[^>]*?(?:src|href)=["']?(?:https?:)?//[^>]*>""")
LIST_WITHOUT_A_GAP = re.compile(r"^(?!\s*(?:[-*|#>]|\d+\.|$))(?! {2})[^\n]*\n(?:[-*]|\d+\.) ", re.MULTILINE)

NAMED = re.compile(r"`((?:cascadia|deploy|docker|docs|judge|sim|tests|traces)/[\w./-]*\w)")


def prose(page: Path) -> str:
    """`page` without what its code blocks and comments hold."""
    return re.sub(r"```.*?```|<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_site_builds_and_asks_nothing_of_the_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    built = list(tmp_path.rglob("*.html"))
    assert len(built) >= len(PAGES) - 1
    assert (tmp_path / "search" / "search_index.js").stat().st_size > 100_000
    assert [found for page in built for found in FETCHED.findall(page.read_text(encoding="utf-8"))] == []


def test_all_pages_together_are_short() -> None:
    words = {page: len(page.read_text(encoding="utf-8").split()) for page in PAGES}
    assert sum(words.values()) <= MOST_WORDS
    assert words[ROOT / "README.md"] <= README_WORDS


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_a_page_begins_with_its_title_and_what_it_answers(page: Path) -> None:
    title, answer, *_ = [part for part in prose(page).strip().split("\n\n") if part.strip()]
    assert re.fullmatch(r"# [^\n]+", title.strip())
    assert re.match(r"[A-Z`*\[]", answer.strip()), "a sentence, no list, table or heading"


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_lists_stand_apart(page: Path) -> None:
    """The site's Markdown, other than a repository's, takes a list for one only below an empty line."""
    assert LIST_WITHOUT_A_GAP.findall(prose(page)) == []


@pytest.mark.parametrize("file", DATA, ids=[file.name for file in DATA])
def test_a_table_of_data_names_each_column_once_and_fills_each_row(file: Path) -> None:
    with file.open(encoding="utf-8", newline="") as text:
        names, *rows = csv.reader(text)
    assert len(set(names)) == len(names) == len([name for name in names if name])
    assert rows
    assert {len(row) for row in rows} == {len(names)}


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem
)
def test_what_a_page_names_of_the_repository_is_there(page: Path) -> None:
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", ["report.png", "report-charts.png", "what-if.png"])
def test_a_picture_is_of_a_plan_that_a_page_prints(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who moves a plan's figures draws its pictures anew: `python docs/pictures.py`."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    pictures = import_module("pictures")
    title = pictures.title_of((ROOT / "docs" / "images" / name).read_bytes())
    assert title
    assert title in [line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines()]

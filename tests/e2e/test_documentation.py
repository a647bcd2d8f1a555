"""What the documentation shows is what happens."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.data import ROOT
from tests.unit.deploy.helm_binary import binary

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


SHOWN = [page for page in PAGES if re.search(r"^```console run", page.read_text(), re.MULTILINE)]


@pytest.mark.parametrize("page", SHOWN, ids=[str(page.relative_to(ROOT)) for page in SHOWN])
def test_shown_commands_print_what_is_shown(page: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "transcripts.py", "--check", str(page.relative_to(ROOT))],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "PATH": f"{binary(4).parent}{os.pathsep}{os.environ['PATH']}"},
    )
    assert done.returncode == 0, f"run docs/transcripts.py to write the pages anew:\n{done.stderr}"


def test_notebooks_run_and_print_what_they_show() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "notebooks.py", "--check"],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"run docs/notebooks.py to write them anew:\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_can_be_reached_from_the_index() -> None:
    seen, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop().resolve()
        if page in seen or page.suffix != ".md" or not page.is_file():
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)#\s]+)", page.read_text())
        ahead += [page.parent / link for link in links if "://" not in link]
    assert [str(page.relative_to(ROOT)) for page in PAGES if page.resolve() not in seen] == []


def test_pictures_are_small() -> None:
    pictures = list((ROOT / "docs" / "images").glob("*.png"))
    assert pictures
    assert all(picture.stat().st_size < 400_000 for picture in pictures)

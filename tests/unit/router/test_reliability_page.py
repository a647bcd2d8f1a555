"""Whatever the page on reliability says is tested, is."""

import re

from tests.data import ROOT

PAGE = ROOT / "docs" / "reference" / "reliability.md"


def test_every_test_and_file_that_the_page_names_is_there() -> None:
    text = PAGE.read_text()
    named = re.findall(r"`(test_\w+)::(test_\w+)`", text)
    assert len(named) > 40
    for module, test in named:
        files = list((ROOT / "tests").rglob(f"{module}.py"))
        assert any(f"def {test}(" in file.read_text() for file in files), f"{module}::{test}"
    for path in re.findall(r"(tests/\w[\w/]*\.py)", text):
        assert (ROOT / path).exists(), path


def test_every_row_of_what_hurt_others_names_what_shows_that_it_does_not_here() -> None:
    rows = [
        line for line in PAGE.read_text().partition("## What has hurt others")[2].splitlines() if "|" in line
    ]
    for row in rows[2:]:
        cells = row.strip("|").split("|")
        assert "test_" in cells[1] or "tests/" in cells[1] or cells[1].strip() == "the same", row

"""Whatever the page on security says is held by a test, is."""

import re

from tests.data import ROOT

PAGE = ROOT / "docs" / "reference" / "security.md"


def test_every_test_that_the_page_names_is_there() -> None:
    text = PAGE.read_text()
    named = set(re.findall(r"`(test_\w+)::(test_\w+)`", text))
    assert len(named) > 40
    for module, test in sorted(named):
        files = list((ROOT / "tests").rglob(f"{module}.py"))
        assert any(f"def {test}(" in file.read_text() for file in files), f"{module}::{test}"


def test_every_line_that_says_cannot_names_what_holds_it() -> None:
    rows = [
        line.strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("cannot ")
    ]
    assert len(rows) > 25
    for row in rows:
        assert "test_" in row[-1], row


def test_the_page_for_reporters_is_there_and_names_the_other() -> None:
    assert "docs/reference/security.md" in (ROOT / "SECURITY.md").read_text()

"""Whatever the page on security says is held by a test, is."""

import csv
import re

from tests.data import ROOT

PAGE = ROOT / "docs" / "reference" / "security.md"
HELD = PAGE.parent / "data" / "security.csv"


def held() -> list[dict[str, str]]:
    """The page's lines, each with the tests that hold it."""
    with HELD.open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def test_every_test_that_the_page_names_is_there() -> None:
    text = PAGE.read_text() + HELD.read_text()
    named = set(re.findall(r"(test_\w+)::(test_\w+)", text))
    assert len(named) > 40
    for module, test in sorted(named):
        files = list((ROOT / "tests").rglob(f"{module}.py"))
        assert any(f"def {test}(" in file.read_text() for file in files), f"{module}::{test}"


def test_every_line_that_says_cannot_names_what_holds_it() -> None:
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", PAGE.read_text()).replace("`", "")
    lines = [line.removeprefix("- ") for line in plain.splitlines() if line.startswith("- ")]
    rows = held()
    assert lines == [row["what they can or cannot"] for row in rows]
    cannot = [row for row in rows if row["what they can or cannot"].startswith("cannot ")]
    assert len(cannot) > 25
    for row in cannot:
        assert "test_" in row["held by"], row


def test_the_page_for_reporters_is_there_and_names_the_other() -> None:
    assert "docs/reference/security.md" in (ROOT / "SECURITY.md").read_text()

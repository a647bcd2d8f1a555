"""Whatever the page on reliability says is tested, is."""

import csv
import re

from tests.data import ROOT

PAGE = ROOT / "docs" / "reference" / "reliability.md"
HURT_OTHERS = PAGE.parent / "data" / "hurt-others.csv"
HELD = PAGE.parent / "data" / "reliability.csv"


def test_every_test_and_file_that_the_page_names_is_there() -> None:
    text = PAGE.read_text() + HELD.read_text() + HURT_OTHERS.read_text()
    named = re.findall(r"(test_\w+)::(test_\w+)", text)
    assert len(named) > 40
    for module, test in named:
        files = list((ROOT / "tests").rglob(f"{module}.py"))
        assert any(f"def {test}(" in file.read_text() for file in files), f"{module}::{test}"
    for path in re.findall(r"(tests/\w[\w/]*\.py)", text):
        assert (ROOT / path).exists(), path


def test_every_row_of_the_page_has_its_tests() -> None:
    with HELD.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    told = [line.split(" | ")[0] for line in PAGE.read_text().splitlines() if " | " in line]
    breaks = [name.replace("`", "") for name in told if name != "what breaks"]
    assert breaks == [row["what breaks"] for row in rows]
    assert all("test_" in row["tests"] for row in rows)


def test_every_row_of_what_hurt_others_names_what_shows_that_it_does_not_here() -> None:
    with HURT_OTHERS.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    assert f"[{len(rows)} faults of other routers and planners](data/{HURT_OTHERS.name})" in PAGE.read_text()
    for row in rows:
        assert "test_" in row["tests"] or "tests/" in row["tests"], row

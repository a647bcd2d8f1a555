"""The page on fakes: its example runs, and it names what there is."""

import re

from cascadia import testing
from tests.data import ROOT

PAGE = (ROOT / "docs" / "how-to" / "test-with-fakes.md").read_text()


def test_the_example_holds() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(compile(example, "test-with-fakes.md", "exec"), {})


def test_every_module_is_named_there_and_in_the_rooms_docstring() -> None:
    there = {path.stem for path in (ROOT / "cascadia" / "testing").glob("*.py")} - {"__init__"}
    assert set(re.findall(r"`cascadia\.testing\.(\w+)`", PAGE)) == there
    assert there <= set(re.findall(r"`(\w+)`", testing.__doc__ or ""))

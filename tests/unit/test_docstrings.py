"""Docstrings begin with what the thing is or does, so that a list of first words is a list of things."""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.data import ROOT

# Question words, conjunctions, prepositions, pronouns and negations: the thing itself comes after them, or never.
OPENER = re.compile(
    r"""(about|after|again|against|also|although|among|around|as|at|because|before|behind|below|beside|besides|between|
    beyond|by|despite|during|either|even|except|for|from|he|how|if|in|into|it|its|later|like|near|neither|never|nobody|
    none|not|nothing|of|off|on|only|ours|out|over|per|she|since|so|than|that|their|them|they|those|through|to|toward|
    under|unless|until|up|what|when|whenever|where|wherever|whether|which|while|who|whose|why|with|within|without|yet
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
MOST = 0.02
TOPS = ("cascadia", "sim", "judge", "traces")


def docstrings() -> Iterator[tuple[str, str]]:
    """Place and text of every docstring of the product."""
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    line, name = getattr(node, "lineno", 1), getattr(node, "name", "the module")
                    yield f"{path.relative_to(ROOT)}:{line} {name}", ast.get_docstring(node) or ""


def test_docstrings_begin_with_the_thing() -> None:
    found = [(place, text) for place, text in docstrings() if text]
    elsewhere = [f"{place}: {text.splitlines()[0]}" for place, text in found if OPENER.match(text)]
    share = len(elsewhere) / len(found)
    assert share <= MOST, f"{share:.1%} of {len(found)} docstrings:\n" + "\n".join(elsewhere)


@pytest.mark.parametrize("text", ["Whether it fits.", "Of each stage, the load.", "Until it answers."])
def test_an_opener_is_noticed(text: str) -> None:
    assert OPENER.match(text)


@pytest.mark.parametrize(
    "text", ["Tells whether it fits.", "`of` in the catalogue.", "Office hours.", "The load."]
)
def test_a_thing_is_no_opener(text: str) -> None:
    assert not OPENER.match(text)


DESCRIBES_NOTHING = re.compile(r"(of|by|whose|in|from|for|at|as)\b", re.IGNORECASE)


def descriptions() -> Iterator[tuple[str, str]]:
    """Place and text of what is said of each key that users write: settings, specs, the chart's values."""
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*.py")):
            text = path.read_text()
            for node in ast.walk(ast.parse(text if "description=" in text else "")):
                if not isinstance(node, ast.keyword) or node.arg != "description":
                    continue
                if isinstance(node.value, ast.Constant):
                    yield f"{path.relative_to(ROOT)}:{node.value.lineno}", str(node.value.value)
    schema = json.loads((ROOT / "deploy" / "helm" / "cascadia" / "values.schema.json").read_text())
    yield from _described(schema["properties"], "values")


def _described(value: Any, at: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        if isinstance(value.get("description"), str):
            yield at, value["description"]
        for key, member in value.items():
            yield from _described(member, f"{at}.{key}")


def test_what_is_said_of_a_key_stands_alone() -> None:
    """It is shown without its key too: "is missing; add it: Of the requests" tells nobody what to add."""
    found = list(descriptions())
    assert len(found) > 300
    assert [(place, text) for place, text in found if DESCRIBES_NOTHING.match(text)] == []

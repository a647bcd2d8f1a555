"""Docstrings begin with what the thing is or does, so that a list of first words is a list of things."""

import ast
import re
from collections.abc import Iterator

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

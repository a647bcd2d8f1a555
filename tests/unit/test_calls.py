"""Calls say what they pass: from the seventh value on nobody counts, and two floats can swap unseen."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data import ROOT

MOST = 6
"""Values that a call of our own code may pass without a name."""
AS_MANY_AS_THERE_ARE = frozenset(
    {
        *(
            "table.add_row",
            "shown.add_row",
            "Table",
            "words",
            "cascadia_command",
        ),  # each value is one more of the same
        *("Lane", "Ring", "Pipeline", "look_up", "descend"),  # in what numba compiles
    }
)
PLACES = ("cascadia", "sim/cascadia_sim", "judge/cascadia_judge", "traces/cascadia_traces")


def many(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of calls with more unnamed values than `MOST`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and len(node.args) > MOST:
            name = ast.unparse(node.func)
            if name not in AS_MANY_AS_THERE_ARE:
                yield node.lineno, name


@pytest.mark.parametrize("place", PLACES)
def test_no_call_passes_more_unnamed_values_than_one_can_count(place: str) -> None:
    files = sorted(Path(ROOT, place).rglob("*.py"))
    assert files
    found = [(path.name, *one) for path in files for one in many(ast.parse(path.read_text()))]
    assert found == []


def test_one_is_found() -> None:
    assert list(many(ast.parse("f(1, 2, 3, 4, 5, 6, 7)"))) == [(1, "f")]
    assert list(many(ast.parse("f(1, 2, 3, 4, 5, 6, seventh=7)"))) == []

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


def borrowed(text: str) -> Iterator[tuple[str, str, int]]:
    """Module, name and number of values of each test of another file that `text` calls."""
    tree = ast.parse(text)
    modules = {
        name.asname or name.name: f"{node.module}.{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.unit")
        for name in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            module = modules.get(ast.unparse(node.func.value))
            if module is not None and node.func.attr.startswith("test_"):
                yield module, node.func.attr, len(node.args) + len(node.keywords)


def test_long_tests_hand_to_tests_that_they_borrow_what_those_take() -> None:
    """They run by themselves and seldom: one had missed a fixture that its test had got."""
    found = [one for path in (ROOT / "tests/e2e").glob("test_*.py") for one in borrowed(path.read_text())]
    assert found
    for module, name, values in found:
        tree = ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text())
        takes = {node.name: len(node.args.args) for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert takes.get(name) == values, (module, name)

"""The walks through the code name files and symbols that are there."""

import ast
import re

import pytest

from tests.data import ROOT

PAGE = (ROOT / "docs" / "design" / "walks.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(cascadia/[\w/]+\.py)(?:::([\w.]+))?`", PAGE)


def defined(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """What a module or a class defines, by name."""
    found: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
    return found


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_step_names_what_there_is(path: str, name: str) -> None:
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    for part in filter(None, name.split(".")):
        there = defined(body)
        assert part in there, f"{path} has no {name}"
        body = getattr(there[part], "body", [])


def test_both_walks_are_there() -> None:
    assert len(NAMED) > 20
    assert "::allowed`" in PAGE
    assert "::Gate.score`" in PAGE

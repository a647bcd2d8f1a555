"""Every error that a client may get from the router is on its page, by its code and status."""

import ast
import re

from tests.data import ROOT

PAGE = (ROOT / "docs/reference/router.md").read_text(encoding="utf-8")
OPERATORS = ("admin", "ui")
"""Rooms whose answers are for operators and controllers."""


def codes() -> set[tuple[int, str]]:
    """Statuses and codes of the router's `ApiError`s."""
    found = set()
    for path in (ROOT / "cascadia/router").rglob("*.py"):
        if path.parent.name in OPERATORS:
            continue
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "ApiError":
                match call.args[:2]:
                    case [ast.Constant(value=int(status)), ast.Constant(value=str(code))]:
                        found.add((status, code))
    return found


def test_every_error_is_told_with_its_status() -> None:
    told = codes()
    assert len(told) > 20
    for status, code in sorted(told):
        lines = [line for line in PAGE.splitlines() if f"`{code}`" in line]
        assert any(re.search(rf"\b{status}\b", line) for line in lines), (status, code)

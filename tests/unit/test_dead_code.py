"""What is defined is used."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.data import ROOT

PLACES = ("cascadia", "sim/cascadia_sim", "judge/cascadia_judge", "traces/cascadia_traces")
ALSO_USE = ("tests", "docs", "deploy", "pyproject.toml")
FOR_OTHERS = ("cascadia/testing",)
"""Rooms whose users are tests, here and elsewhere."""
PROPERTIES = ("property", "cached_property")


def defined(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Functions, classes and constants of a module, and properties. What a decorator takes is its to use."""
    for node in tree.body:
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.ClassDef) or (function and not node.decorator_list):
            yield node.lineno, node.name
        elif isinstance(node, ast.Assign):
            yield from ((node.lineno, name.id) for name in node.targets if isinstance(name, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.lineno, node.target.id
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(
            ast.unparse(d) in PROPERTIES for d in node.decorator_list
        ):
            yield node.lineno, node.name


def unused(sources: dict[str, str], others: str = "") -> list[str]:
    """Names that occur where they are defined, and nowhere else."""
    words = Counter(re.findall(r"\w+", others))
    for text in sources.values():
        words.update(re.findall(r"\w+", text))
    return [
        f"{where}:{line} {name}"
        for where, text in sources.items()
        if not where.startswith(FOR_OTHERS)
        for line, name in defined(ast.parse(text))
        if words[name] == 1 and not name.startswith("__")
    ]


def test_nothing_is_defined_that_nothing_uses() -> None:
    files = [path for place in PLACES for path in sorted((ROOT / place).rglob("*.py"))]
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in files}
    also = [path for place in ALSO_USE for path in sorted((ROOT / place).rglob("*")) or [ROOT / place]]
    others = "\n".join(path.read_text() for path in also if path.suffix in {".py", ".toml", ".yaml", ".tpl"})
    assert unused(sources, others) == []


def test_what_its_own_module_does_not_use_is_private_to_nobody() -> None:
    """Elsewhere the same private name may be another's."""
    found = []
    for place in PLACES:
        for path in sorted(Path(ROOT, place).rglob("*.py")):
            text = path.read_text()
            words = Counter(re.findall(r"\w+", text))
            if not any(name[:1] == "_" and words[name] == 1 for name in words):
                continue
            names = [(line, name) for line, name in defined(ast.parse(text)) if name[:1] == "_" != name[1:2]]
            found += [f"{path.relative_to(ROOT)}:{line} {name}" for line, name in names if words[name] == 1]
    assert found == []


def test_one_that_is_not_used_is_found() -> None:
    assert unused({"a.py": "def one(): ...\ndef two(): one()"}) == ["a.py:2 two"]
    assert unused({"a.py": "class A:\n    @property\n    def b(self): return 1\nA()"}) == ["a.py:3 b"]

"""Each room says what it may import as its package's contract does, and holds no more files than a look takes in."""

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.data import ROOT

ROOTS = {"cascadia_sim": "sim", "cascadia_judge": "judge", "cascadia_traces": "traces"}
MOST_FILES = 16
ROUTER = ROOT / "cascadia" / "router"
CONTRACTS = [
    contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    if "containers" in contract
]


def folder_of(package: str) -> Path:
    return ROOT.joinpath(ROOTS.get(package.split(".")[0], ""), *package.split("."))


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract["containers"][0])
def test_a_room_says_what_stands_below_it(contract: dict[str, list[str]]) -> None:
    layers = [re.findall(r"\w+", layer) for layer in contract["layers"]]
    for at, names in enumerate(layers):
        below = [name for lower in layers[at + 1 :] for name in lower]
        for name in names:
            init = folder_of(contract["containers"][0]) / name / "__init__.py"
            if init.exists():
                said = " ".join((ast.get_docstring(ast.parse(init.read_text())) or "").split())
                allowed = re.findall(r"`(\w+)`", said.partition("it may import")[2])
                assert allowed == below, init
                assert below or "imports no other room" in said, init


def test_no_room_has_more_files_than_a_look_takes_in() -> None:
    for top in ("cascadia", "sim", "judge", "traces"):
        for folder in (path for path in (ROOT / top).rglob("*") if path.is_dir()):
            files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
            assert len(files) <= MOST_FILES, folder


def test_no_module_of_the_router_imports_back_for_a_type() -> None:
    """Imports for types alone are counted too. The modules of `http` hand one another their parts and count as one."""
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in ROUTER.rglob("*.py")}
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        one = _one(module)
        graph.setdefault(one, set()).update({_one(name) for name in _imported(path, files)} - {one})
    list(TopologicalSorter(graph).static_order())


def _one(module: str) -> str:
    return "cascadia.router.http" if module.startswith("cascadia.router.http.") else module


def _imported(path: Path, files: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                for name in (f"{node.module}.{alias.name}", node.module):
                    if name in files:
                        yield name
                        break

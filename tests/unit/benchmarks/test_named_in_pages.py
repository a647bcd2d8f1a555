"""Benchmarks are there to be run: each module is whole, and takes what the pages beside a figure have it take."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from tests.benchmarks.__main__ import BENCHMARKS
from tests.data import ROOT

FOLDER = ROOT / "tests" / "benchmarks"
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted([*FOLDER.glob("*.py"), *FOLDER.glob("fidelity/*.py")])
    if path.stem != "__init__"
]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/data/*.csv")])
NAMED = re.compile(r"tests\.benchmarks\.([\w.]*\w)([^`\n|,;)]*)|(?<![\w/])(bench_\w+)(?!\.py)([^`\n|,;)]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def commands() -> list[tuple[str, str, str]]:
    """Page, module below `tests.benchmarks`, and what is said after it."""
    found = []
    for page in PAGES:
        for module, rest, short, more in NAMED.findall(page.read_text(encoding="utf-8")):
            found.append((str(page.relative_to(ROOT)), module or short, rest or more))
    return found


def options_of(path: Path) -> set[str]:
    """Flags that the source at `path` names in a call of `add_argument`."""
    calls = [
        node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
    ]
    named = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "add_argument"]
    return {
        a.value
        for call in named
        for a in call.args
        if isinstance(a, ast.Constant) and isinstance(a.value, str) and a.value.startswith("--")
    }


@pytest.mark.parametrize("module", MODULES)
def test_a_module_finds_all_that_it_imports(module: str) -> None:
    """`bench_gears_gpus` took `cases` from where it no longer was, and had not run for four days."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in {"cascadia", "tests", "docs"}:
            raise
        pytest.skip(f"needs {error.name}")


@pytest.mark.parametrize(("page", "module", "rest"), commands())
def test_a_page_names_commands_that_there_are(page: str, module: str, rest: str) -> None:
    path = FOLDER.joinpath(*module.split(".")).with_suffix(".py")
    assert path.exists(), f"{page} names {module}"
    known = options_of(path)
    assert [o for o in OPTION.findall(rest) if o not in known] == []


def test_what_is_run_at_once_is_there() -> None:
    there = {path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py")}
    assert {b.name for b in BENCHMARKS} <= there
    for benchmark in BENCHMARKS:
        options = {o for o in benchmark.quick if o.startswith("--")}
        assert options <= options_of(FOLDER / f"bench_{benchmark.name}.py")


@pytest.mark.parametrize("module", sorted({module for _, module, _ in commands()}))
def test_a_named_command_says_what_it_takes(module: str) -> None:
    """One that took its words by place ended in an IndexError where the page gave none."""
    source = FOLDER.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    assert not re.search(r"sys\.argv\[\d", source), "argparse tells what is missing"

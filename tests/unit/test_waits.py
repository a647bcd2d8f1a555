"""No test waits for ever: each wait for a process or a thread has a limit, and each test has one for all else."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data import ROOT

BLOCKING = frozenset({"wait", "communicate", "join"})
"""Of processes, threads and events. What is awaited instead is ended with its test."""
RUNS = frozenset(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output"))
OWN = {"tests/unit/sim/twin.py": "a request of the simulated engine waits: nothing blocks"}


def holding(folder: str, *words: str) -> Iterator[tuple[str, ast.Module]]:
    """Name and tree of each file of `folder` with one of these words: to parse all takes a quarter of a minute."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text()
        if any(word in text for word in words):
            yield str(path.relative_to(ROOT)), ast.parse(text)


def unlimited(tree: ast.AST) -> Iterator[int]:
    """Lines with a wait that has no limit."""
    awaited = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Await):
            awaited.add(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("wait_for"):
            awaited |= set(node.args)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or node in awaited or not isinstance(node.func, ast.Attribute):
            continue
        bare = not node.args and not node.keywords
        runs = ast.unparse(node.func) in RUNS
        if (node.func.attr in BLOCKING and bare) or (
            runs and not any(keyword.arg in ("timeout", None) for keyword in node.keywords)
        ):
            yield node.lineno


def test_every_wait_for_a_process_or_a_thread_has_a_limit() -> None:
    found = [
        f"{name}:{line}"
        for name, tree in holding("tests", *(f".{word}()" for word in BLOCKING), *RUNS)
        if name not in OWN
        for line in unlimited(tree)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    ["process.wait()", "_, said = process.communicate()", "thread.join()", "subprocess.run(['true'])"],
)
def test_one_without_a_limit_is_found(line: str) -> None:
    assert list(unlimited(ast.parse(line))) == [1]


@pytest.mark.parametrize(
    "line",
    [
        *("process.wait(timeout=5)", "thread.join(5)", "', '.join(names)", "await event.wait()"),
        *("await asyncio.wait_for(event.wait(), 5)", "subprocess.run(['true'], timeout=5)"),
    ],
)
def test_one_with_a_limit_and_one_that_is_awaited_are_not(line: str) -> None:
    assert list(unlimited(ast.parse(f"async def f():\n    {line}"))) == []


def test_a_test_that_hangs_is_ended_with_its_stack(tmp_path: Path) -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert told["faulthandler_exit_on_timeout"] is True
    assert 0 < told["faulthandler_timeout"] <= 1200
    hangs = "import asyncio\n\ndef test_it():\n    asyncio.run(asyncio.Event().wait())\n"
    (tmp_path / "test_hangs.py").write_text(hangs)
    options = [
        "-o",
        "faulthandler_timeout=1",
        "-o",
        "faulthandler_exit_on_timeout=true",
        "-p",
        "no:cacheprovider",
    ]
    command = [sys.executable, "-m", "pytest", *options, "test_hangs.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert "test_hangs.py" in ended.stderr
    assert "Timeout" in ended.stderr


SHORTEST_S = 60
WAITS = frozenset({"wait_for", "join", "wait", "until", "timeout"})
MEANT = {
    "tests/unit/demo/test_children.py": "a wait that is to run out",
    "tests/unit/judge_service/test_beside.py": "a wait that is to run out",
    "tests/unit/router/test_openai_client.py": "the client's own limit, which is to run out",
}


def short(tree: ast.AST) -> Iterator[int]:
    """Lines with a limit, of a wait or a client, that a busy machine may pass though nothing is wrong."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        waits = ast.unparse(node.func).rpartition(".")[2] in WAITS
        limits = [keyword.value for keyword in node.keywords if keyword.arg in ("timeout", "within_s")]
        for limit in [*limits, *(node.args if waits else [])]:
            if (
                isinstance(limit, ast.Constant)
                and isinstance(limit.value, int | float)
                and limit.value < SHORTEST_S
            ):
                yield node.lineno


def test_no_unit_test_gives_a_busy_machine_too_little_time() -> None:
    found = [
        f"{name}:{line}"
        for name, tree in holding("tests/unit", *(f"{word}(" for word in WAITS), "timeout=", "within_s=")
        if name not in {*MEANT, "tests/unit/test_waits.py"}
        for line in short(tree)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line", ["asyncio.timeout(5)", "asyncio.wait_for(its, 10.0)", "Client(timeout=20)", "event.wait(1)"]
)
def test_a_short_limit_is_found(line: str) -> None:
    assert list(short(ast.parse(line))) == [1]


LONG_S = 0.1
WATCHED = {
    "tests/unit/router/server/test_asleep.py": "what is watched is a process that the system has stopped"
}


def sleeps(tree: ast.AST) -> Iterator[int]:
    """Lines that sleep for `LONG_S` or longer, by the clock on the wall."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"time.sleep", "asyncio.sleep"}:
            seconds = node.args[0]
            if isinstance(seconds, ast.Constant) and seconds.value >= LONG_S:
                yield node.lineno


def test_no_unit_test_sleeps_until_something_has_probably_happened() -> None:
    found = [
        f"{name}:{line}"
        for name, tree in holding("tests/unit", "sleep(")
        if name not in WATCHED
        for line in sleeps(tree)
    ]
    assert found == []


def test_one_that_sleeps_is_found() -> None:
    assert list(sleeps(ast.parse("time.sleep(0.5)"))) == [1]
    assert list(sleeps(ast.parse("asyncio.sleep(0)"))) == []

"""A run of chosen tests in a fork of this process, which has imported what they need of others: with a module's source
turned as it is imported, and up to the first test that fails.
"""

import os
import select
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest

from tests.data import ROOT

OTHERS = (
    "fastapi",
    "httpx",
    "hypothesis",
    "numba",
    "numpy",
    "pandas",
    "pulp",
    "pyarrow.parquet",
    "scipy.optimize",
)
"""Packages that most tests import, each half a second."""
IMPORTED = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
OPTIONS = (
    "-q",
    "--no-header",
    "-W",
    IMPORTED,
    *(f"-pno:{name}" for name in ("cacheprovider", "cov", "xdist")),
)


TEST_S = 20.0
"""CPU seconds."""


def prepare(*, as_python: bool = False) -> None:
    """This process, so that its forks are quick and alike: hypothesis draws the same, public data is absent.

    `as_python`: what Numba would compile is run as it stands."""
    os.environ |= {"CASCADIA_CI": "1", "CASCADIA_DATA": str(ROOT / "absent")}
    if as_python:
        os.environ["NUMBA_DISABLE_JIT"] = "1"
    sys.dont_write_bytecode = False
    for name in OTHERS:
        import_module(name)


def run(files: Sequence[str], *plugins: object, limit_s: float, stop: bool = True) -> bool | None:
    """Whether the tests of `files` pass, in a fork; none where they take longer than `limit_s` by the clock.

    Without `stop` all are run, not only up to the first that fails."""
    with tempfile.TemporaryDirectory(prefix="cascadia-mutants-") as folder:
        arguments = [*OPTIONS, *(["-x"] if stop else []), "--basetemp", f"{folder}/tests", *files]
        code = forked(lambda: pytest.main(arguments, plugins=plugins), limit_s)
    return None if code is None else code == pytest.ExitCode.OK


def forked(work: Callable[[], int], limit_s: float) -> int | None:
    """The code that `work` ends with in a fork, which ends with all that it has started."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nothing, stream)
            code = work()
        finally:
            os._exit(code)
    ended = os.pidfd_open(pid)
    in_time, _, _ = select.select([ended], [], [], limit_s)
    os.close(ended)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) if in_time else None


class Limited:
    """A plugin of pytest: a test fails where it takes more than `TEST_S`."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        signal.signal(signal.SIGVTALRM, lambda *_: pytest.fail("it takes too long"))
        signal.setitimer(signal.ITIMER_VIRTUAL, TEST_S)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


class Chosen:
    """A plugin of pytest: of the tests found only `tests` are run, in that order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._tests = tests

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[test] for test in self._tests if test in found]


class Turned:
    """A plugin of pytest: the file `path` is imported as `source`."""

    def __init__(self, path: Path, source: str) -> None:
        self._path, self._source = str(path), source

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        read = SourceFileLoader.get_code

        def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
            if loader.path != self._path:
                return read(loader, name)
            return compile(self._source, self._path, "exec", dont_inherit=True)

        SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]

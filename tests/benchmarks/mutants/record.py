"""Which of a package's own tests execute a line, and how long each takes: run once with coverage.py, and kept.

What is kept, in `.mutants`, holds while no source, and nothing that tests share, is changed; of tests only files that
are new or changed are run again. Those marked slow have records of their own. Tests that fail, or take more than
`TEST_S`, are left out.
"""

import json
import os
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import coverage
import pytest

from tests.benchmarks.mutants.trial import Limited, run
from tests.cpu_seconds import cpu_s
from tests.data import ROOT

KEPT = ROOT / ".mutants"
UNIT = Path("tests/unit")
LEAVES = ("sim", "judge", "traces")
"""Folders of leaf packages; those of their tests have the same names."""
RECORD_S = 7200.0
"""By the clock: longer than any package's tests take."""


class Recorder(Limited):
    """A plugin of pytest: each test is a context of coverage.py, whose data is kept when all have run."""

    def __init__(self, to: Path, sources: Sequence[Path]) -> None:
        self._to = to
        seen = [str(ROOT / source) + ("" if source.suffix else "/**") for source in sources]
        self._coverage = coverage.Coverage(data_file=str(to), config_file=False, include=seen)
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        start = cpu_s()
        self._coverage.switch_context(item.nodeid)
        done = yield
        self._coverage.switch_context("")
        self._seconds[item.nodeid] = cpu_s() - start
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        passed = {test: seconds for test, seconds in self._seconds.items() if test not in self._failed}
        self._to.with_suffix(".json").write_text(json.dumps(passed))


@dataclass(frozen=True, slots=True)
class Recorded:
    """Seconds of each test of one run, and its data of coverage.py."""

    seconds: dict[str, float]
    data: coverage.CoverageData

    def touching(self, path: Path, lines: range) -> set[str]:
        """Tests that execute one of the lines; where one is executed on import, those that execute any of the file, or
        all where none does."""
        contexts = self.data.contexts_by_lineno(str(ROOT / path))
        found = {test for line in lines for test in contexts.get(line, ())}
        if "" in found:
            found = {test for tests in contexts.values() for test in tests if test} or set(self.seconds)
        return found & self.seconds.keys()


def records(path: Path, sources: Sequence[Path], slow: bool) -> list[Recorded]:
    """Of the tests of the package of the file `path`, with those marked slow where `slow`; lines of all `sources` are
    seen. Where compiled code is run as Python, which takes its time, only of those of the file's room."""
    folder = UNIT / (path.parts[0] if path.parts[0] in LEAVES else path.parts[1])
    if "NUMBA_DISABLE_JIT" in os.environ:
        folder /= path.parts[2]
    marks = ("not slow", "slow") if slow else ("not slow",)
    return [record for mark in marks for record in _records(folder, tuple(sources), mark)]


@cache
def _records(folder: Path, sources: tuple[Path, ...], mark: str) -> list[Recorded]:
    tests = {str(test): _digest(test) for test in sorted(folder.rglob("test_*.py"))}
    what = sha256(f"{folder} {sources} {mark}".encode() + _shared()).hexdigest()[:16]
    found = []
    for index in sorted(KEPT.glob(f"{what}-*.files")):
        recorded = json.loads(index.read_text())
        found.append(_recorded(index.with_suffix(""), {t for t in recorded if tests.get(t) == recorded[t]}))
        tests = {test: digest for test, digest in tests.items() if recorded.get(test) != digest}
    if tests:
        KEPT.mkdir(exist_ok=True)
        to = KEPT / f"{what}-{len(found)}"
        print(f"recording what {len(tests)} files of {folder} execute, {mark}", file=sys.stderr, flush=True)
        run([*tests, "-m", mark], Recorder(to, sources), limit_s=RECORD_S, stop=False)
        to.with_suffix(".files").write_text(json.dumps(tests))
        found.append(_recorded(to, set(tests)))
    return found


def _recorded(to: Path, files: set[str]) -> Recorded:
    data = coverage.CoverageData(str(to))
    data.read()
    seconds = json.loads(to.with_suffix(".json").read_text())
    return Recorded({test: s for test, s in seconds.items() if test.partition("::")[0] in files}, data)


def _digest(test: Path) -> str:
    return sha256(test.read_bytes()).hexdigest()


@cache
def _shared() -> bytes:
    """The digest of all sources, and of what tests share."""
    sources = [path for top in ("cascadia", *LEAVES) for path in Path(top).rglob("*.py")]
    helpers = [path for path in UNIT.rglob("*.py") if not path.name.startswith("test_")]
    return sha256(b"".join(path.read_bytes() for path in sorted([*sources, *helpers]))).digest()

"""Trials of mutants, one after another, in a copy of the tree that is theirs alone."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from tests.benchmarks.mutants.sites import Mutant

COPIED = (
    "cascadia",
    "sim",
    "judge",
    "traces",
    "tests",
    "docs",
    "deploy",
    "docker",
    "pyproject.toml",
    "Makefile",
)
NOTHING_RUN = 5
"""pytest's exit code where it found no test."""

Outcome = Literal["passed", "failed", "timed out", "no tests"]


def copy(root: Path, to: Path) -> None:
    """Files keep their times, so that what is compiled once stays compiled."""
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(root / name, to / name)


@contextmanager
def turned(root: Path, mutant: Mutant) -> Iterator[None]:
    """The file is the mutant's meanwhile."""
    path = root / mutant.path
    kept = path.with_suffix(".kept")
    path.rename(kept)
    try:
        path.write_text(mutant.source)
        yield
    finally:
        kept.replace(path)


def run(root: Path, tests: Sequence[Path], limit_s: float) -> Outcome:
    """What `tests` say of the tree at `root`, up to the first that fails."""
    if not tests:
        return "no tests"
    packages = [root, *(root / name for name in ("sim", "judge", "traces"))]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, packages)),
        "CASCADIA_CI": "1",
        "CASCADIA_DATA": str(root / "absent"),
        "NUMBA_CACHE_DIR": str(root / ".numba"),
    }
    options = ("-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *map(str, tests)],
        cwd=root,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return "timed out"
    finally:
        _end(process)
    return "passed" if code == 0 else "no tests" if code == NOTHING_RUN else "failed"


def _end(process: "subprocess.Popen[bytes]") -> None:
    """With whatever the tests have started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)

"""One command, timed from outside: wall-clock and CPU seconds of `cascadia plan SPEC --out DIR`."""

import cProfile
import inspect
import os
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from types import CodeType
from typing import NamedTuple

BARE = "import highspy, numba, numpy, pulp, pyarrow.parquet, pydantic, jinja2, rich.console, click"
"""The libraries that planning needs, imported by a process that does nothing else: a floor for any command."""


class Timing(NamedTuple):
    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]

    @property
    def best_s(self) -> float:
        return min(self.wall_s)

    @property
    def median_s(self) -> float:
        return median(self.wall_s)


def timed(command: Sequence[str], *, repeats: int, store: Path | None = None, limit_s: float = 300) -> Timing:
    """`command`, `repeats` times, each with a table store of its own that is empty, or all with `store`."""
    wall_s, cpu_s = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as empty:
            environment = os.environ | {"CASCADIA_CACHE_DIR": str(store or empty)}
            before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
            )
            wall_s.append(time.perf_counter() - start)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
        cpu_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return Timing(tuple(wall_s), tuple(cpu_s))


def plan_command(spec: Path, out: Path) -> list[str]:
    cascadia = Path(sys.executable).with_name("cascadia")
    return [str(cascadia), "plan", str(spec), "--out", str(out), "--force", "--quiet"]


def bare_imports(repeats: int) -> Timing:
    return timed([sys.executable, "-c", BARE], repeats=repeats)


class Step(NamedTuple):
    name: str
    calls: int
    seconds: float


def profiled(
    run: Callable[[], object], steps: dict[str, Callable[..., object]]
) -> tuple[list[Step], list[Step]]:
    """Cumulative seconds of `steps` by name, and the dozen functions with most time of their own.

    Of the main thread: where it waits for tables made by others, the time stands under their caller.
    """
    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory() as empty:
        known = os.environ.get("CASCADIA_CACHE_DIR")
        os.environ["CASCADIA_CACHE_DIR"] = empty
        try:
            profile.runcall(run)
        finally:
            if known is None:
                del os.environ["CASCADIA_CACHE_DIR"]
            else:
                os.environ["CASCADIA_CACHE_DIR"] = known
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    found = []
    for name, function in steps.items():
        code: CodeType = inspect.unwrap(function).__code__
        calls, _, _, seconds, _ = stats.get(
            (code.co_filename, code.co_firstlineno, code.co_name), (0, 0, 0, 0.0, {})
        )
        found.append(Step(name, calls, seconds))
    own = sorted(stats.items(), key=lambda item: -item[1][2])[:12]
    hottest = [
        Step(f"{Path(file).name}:{line} {name}" if line else name, calls, seconds)
        for (file, line, name), (_, calls, seconds, _, _) in own
    ]
    return found, hottest

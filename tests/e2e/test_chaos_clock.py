"""A wall clock that jumps by days in either direction is seen in the log, and nowhere else."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.chaos_fleet import fleet
from tests.e2e.test_chaos import Told, all_answered, told, under_load

DAY_S = 86_400
__all__ = ["told"]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    path = tmp_path / "clock_jump.so"
    source = Path(__file__).with_name("clock_jump.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", path, source, "-ldl"], check=True, timeout=600)
    return path


@pytest.mark.parametrize("days", [-30, 30])
def test_the_clock_jumps(days: int, library: Path, tmp_path: Path, told: Told) -> None:
    by = tmp_path / "by"
    by.write_text("0")
    with fleet(tmp_path) as up:
        router = up.routers[0]
        router.kill()
        settings = [f"LD_PRELOAD={library}", f"CLOCK_JUMP_FILE={by}"]
        router.command = ["env", *settings, *router.command]
        router.start()
        up.until_ready()
        seen = under_load(up, lambda: jump(by, days), lambda: jump(by, 0))
    told(f"the clock jumps by {days} days", seen)
    all_answered(seen)
    assert seen.slowest_s < 2.0
    lines = [json.loads(line) for line in router.log.read_text().splitlines() if line.startswith("{")]
    off_days = {round((line["ts"] - lines[-1]["ts"]) / DAY_S) for line in lines}
    assert off_days == {0, days}
    assert max(line["seconds"] for line in lines) < 2.0


def jump(by: Path, days: int) -> None:
    """At once, for whoever reads it at this moment too."""
    new = by.with_name("new")
    new.write_text(str(days * DAY_S))
    os.replace(new, by)

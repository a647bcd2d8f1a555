"""^C of `cascadia demo`, whatever it is doing: it ends within seconds with code 130, and nothing of it is left."""

import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
import pytest
import yaml

from tests.e2e.commands import PROGRAM, environment

LIMIT_S = 240.0
END_S = 20.0


def named(folder: Path) -> list[int]:
    """Processes that have something to do with `folder`, by their command lines."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue  # it has ended
    return found


def until(true: Callable[[], bool], demo: "subprocess.Popen[bytes]") -> None:
    until_s = time.monotonic() + LIMIT_S
    while not true():
        assert demo.poll() is None, demo.stderr.read() if demo.stderr else "it ended by itself"
        assert time.monotonic() < until_s
        time.sleep(0.02)


def downloads(place: Path) -> bool:
    return any((place / "empty").glob("models/*/*"))


def calibrates(place: Path) -> bool:
    return (place / "demo-run" / "logs" / "profile-small.log").exists()


def starts(place: Path) -> bool:
    return (place / "demo-run" / "logs" / "router.log").exists()


def asks(place: Path) -> bool:
    """The router has work in hand."""
    if not starts(place):
        return False
    port = yaml.safe_load((place / "demo-run" / "router.yaml").read_text())["port"]
    try:
        stages = httpx.get(f"http://127.0.0.1:{port}/ready", trust_env=False).json()["stages"]
    except httpx.HTTPError:
        return False
    return any(r["running"] for stage in stages.values() for r in stage["replicas"].values())


MOMENTS: Mapping[str, tuple[Callable[[Path], bool], list[str]]] = {
    "it fetches models": (downloads, []),
    "it measures the engines": (calibrates, ["--calibrate"]),
    "it starts what was planned": (starts, []),
    "it asks its questions": (asks, []),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_is_left_of_a_demo_that_is_interrupted_while(
    moment: str, tmp_path: Path, cache: Path
) -> None:
    """The first moment has a cache of its own; the others fill the common one where they are run alone."""
    true, flags = MOMENTS[moment]
    at = tmp_path / "empty" if true is downloads else cache
    demo = subprocess.Popen(
        [PROGRAM, "demo", *flags],
        cwd=tmp_path,
        env=environment(at),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        until(lambda: true(tmp_path), demo)
        demo.send_signal(signal.SIGINT)
        _, said = demo.communicate(timeout=END_S)
    finally:
        demo.kill()
        demo.wait(timeout=60)
    assert demo.returncode == 130, said.decode()
    assert said.decode().strip().endswith("error: interrupted")
    assert named(tmp_path) == []

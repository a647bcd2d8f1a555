"""One command builds all images, on the base's digest of today; what it calls stands for docker here."""

import os
import subprocess
from pathlib import Path

import pytest

from cascadia import __version__
from tests.data import ROOT

DIGEST = "sha256:" + "a" * 64


def build(folder: Path, **environment: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """The script with programs that write down how they are called."""
    calls = folder / "calls"
    for name in ("docker", "podman"):
        program = folder / name
        program.write_text(
            f'#!/bin/sh\necho "{name} $*" >>{calls}\n[ "$1" = buildx ] && echo {DIGEST}\nexit 0\n'
        )
        program.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(ROOT / "docker" / "build.sh")],
        env={"PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done, calls.read_text().splitlines() if calls.exists() else []


def test_each_image_is_built_on_the_digest_that_the_registry_tells(tmp_path: Path) -> None:
    done, calls = build(tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"base: python:3.11-slim-bookworm@{DIGEST}" in done.stdout
    assert calls[0].startswith("docker buildx imagetools inspect python:3.11-slim-bookworm")
    assert [call.split()[-2] for call in calls[1:]] == [
        f"cascadia/{name}:{__version__}" for name in ("router", "judge", "controller")
    ]
    assert all(f"BASE_DIGEST={DIGEST}" in call for call in calls[1:])


@pytest.mark.parametrize("given", ["", DIGEST])
def test_another_builder_is_told_the_digest(given: str, tmp_path: Path) -> None:
    done, calls = build(tmp_path, BUILDER="podman", BASE_DIGEST=given)
    assert done.returncode == (0 if given else 2)
    assert len(calls) == (3 if given else 0)

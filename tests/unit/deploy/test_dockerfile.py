"""Images hold what their service imports, on a base that is pinned."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.data import ROOT

DOCKER = ROOT / "docker"
TEXT = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
OURS = {"cascadia-llm", "editables"}
"""`editables` is how this checkout is installed."""

IMPORTS = {
    "router": "cascadia.cli.serve, cascadia.router.server.app, cascadia.router.server.server, "
    "cascadia.router.settings.file, cascadia.router.admin.server, cascadia.router.live.reload, "
    "cascadia.router.access.redis_store",
    "judge": "cascadia.cli.judge.serve, cascadia.judge_service.app, cascadia.clients.processes.http_server, "
    "cascadia_judge.embedding",
}
PROBE = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {missing}:
            raise ModuleNotFoundError(name + ' is not in the image')

sys.meta_path.insert(0, Missing())
import cascadia.cli.main, {modules}
"""
"""Imports a service as if the packages that its image lacks were not there."""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required(file: Path) -> set[str]:
    """What the file names, and what that needs in turn."""
    lines = file.read_text(encoding="utf-8").splitlines()
    todo = [canonical(line) for line in lines if line and not line.startswith("#")]
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        for line in metadata.requires(name) or ():
            if "extra ==" not in line and (words := re.match(r"[A-Za-z0-9._-]+", line)):
                todo += [canonical(words.group())] if installed(words.group()) else []
    return found


def installed(name: str) -> bool:
    try:
        return bool(metadata.version(name))
    except metadata.PackageNotFoundError:
        return False


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("service", list(IMPORTS))
def test_a_service_starts_with_what_its_image_has(service: str) -> None:
    has = required(DOCKER / f"requirements-{service}.txt") | OURS
    missing = {
        module
        for module, owners in metadata.packages_distributions().items()
        if not {canonical(owner) for owner in owners} & has
    }
    assert {"numba", "highspy", "pulp"} <= missing
    probe = PROBE.format(missing=sorted(missing), modules=IMPORTS[service])
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("service", list(IMPORTS))
def test_an_image_has_no_solver_and_no_compiler(service: str) -> None:
    assert not required(DOCKER / f"requirements-{service}.txt") & {
        "numba",
        "llvmlite",
        "highspy",
        "pulp",
    }


def test_the_base_is_pinned_by_a_digest_that_has_no_default() -> None:
    assert "ARG BASE_DIGEST\n" in TEXT
    bases = re.findall(r"^FROM (\S+)", TEXT, re.MULTILINE)
    assert bases[0] == "${BASE}@${BASE_DIGEST}"
    assert set(bases[1:]) <= {"base", "build", "runtime"}


@pytest.mark.parametrize("target", ["router", "judge", "controller"])
def test_an_image_runs_as_the_charts_user_and_knows_whether_it_is_well(target: str) -> None:
    stage = TEXT.split(f"FROM runtime AS {target}\n", 1)[1].split("\nFROM ", 1)[0]
    assert "USER 1000:1000" in stage
    assert "HEALTHCHECK" in stage

"""A small plan on disk, made by the real planner, for commands that read plans."""

import fcntl
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.unit.cli.commands import run
from tests.unit.planner.brief import brief_searches
from tests.unit.planner.specs import valid_spec, write_inputs, write_spec


@pytest.fixture(scope="session")
def planned(among_workers: Path) -> Path:
    """Planned by the first process that asks; the others wait for it."""
    folder = among_workers / "planned"
    with (among_workers / "planned.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            making = Path(tempfile.mkdtemp(dir=among_workers))
            write_inputs(making)
            write_spec(making, valid_spec())
            with brief_searches():
                result = run("plan", str(making / "cascade.yaml"), "--out", str(making / "plan"))
            assert result.exit_code == 0, result.output
            making.rename(folder)
    return folder


@pytest.fixture(scope="module")
def folder(planned: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a spec, its trace, and the plan made from it: each module's own."""
    return Path(shutil.copytree(planned, tmp_path_factory.mktemp("planned") / "folder"))

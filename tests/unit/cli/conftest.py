"""A small plan on disk, made by the real planner, for commands that read plans."""

from pathlib import Path

import pytest

from tests.unit.cli.commands import run
from tests.unit.planner.specs import valid_spec, write_inputs, write_spec


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a spec, its trace, and the plan made from it."""
    folder = tmp_path_factory.mktemp("planned")
    write_inputs(folder)
    write_spec(folder, valid_spec())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CASCADIA_CACHE_DIR", str(folder / "cache"))
        result = run("plan", str(folder / "cascade.yaml"), "--out", str(folder / "plan"), "--no-report")
    assert result.exit_code == 0, result.output
    return folder

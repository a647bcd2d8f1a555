"""A folder with a spec's files."""

from pathlib import Path

import pytest

from tests.unit.planner.specs import write_inputs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_inputs(tmp_path)
    return tmp_path

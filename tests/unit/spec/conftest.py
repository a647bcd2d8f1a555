"""A folder with the files that a valid spec names."""

from pathlib import Path

import pytest

from tests.unit.spec.specs import write_inputs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_inputs(tmp_path)
    return tmp_path

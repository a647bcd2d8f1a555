from pathlib import Path

import pytest

from tests.e2e.commands import Cascadia


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def cascadia(tmp_path: Path, cache: Path) -> Cascadia:
    """The command in an empty folder."""
    return Cascadia(tmp_path, cache)

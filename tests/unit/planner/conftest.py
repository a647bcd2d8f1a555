"""Tables are made anew for each run of the tests, not taken from the user's store; a folder with a spec's files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.planner.specs import write_inputs


@pytest.fixture(autouse=True, scope="session")
def own_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CASCADIA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_inputs(tmp_path)
    return tmp_path

"""Tables are made anew for each run of the tests, not taken from the user's store."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def own_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CASCADIA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield

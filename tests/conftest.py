"""What all tests share."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests keep their tables to themselves: none is read from, or left in, the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CASCADIA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield

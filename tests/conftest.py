"""What all tests share.

Where CASCADIA_CI is set, hypothesis draws the same examples each time, so that a change is judged by what it changed;
elsewhere they are new in each run, and find what nobody thought of.
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CASCADIA_CI"):
    settings.load_profile("ci")


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests keep their tables to themselves: none is read from, or left in, the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CASCADIA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield

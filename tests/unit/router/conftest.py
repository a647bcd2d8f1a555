"""What tests of the router share."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths of settings, such as the folder of what keys have spent, lie there and not in the repository."""
    monkeypatch.chdir(tmp_path)

"""Paths from homes, for users who have one and for those who have none."""

from pathlib import Path

import numpy as np
import pytest

from cascadia.domain.errors import BadInput
from cascadia.files.homes import cache_folder, named_path
from cascadia.planner.tables.store import load_table, save_table


@pytest.fixture
def without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for variable in ("HOME", "XDG_CACHE_HOME", "CASCADIA_CACHE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    monkeypatch.setattr(Path, "expanduser", lambda _: unknown())


@pytest.mark.usefixtures("without_a_home")
def test_who_has_no_home_is_told_what_to_set() -> None:
    with pytest.raises(BadInput, match=r"HOME: is not set, .* set CASCADIA_CACHE_DIR to a folder"):
        cache_folder("models")
    assert named_path(Path("a"), "~/b") == Path("a/~/b")


@pytest.mark.usefixtures("without_a_home")
def test_who_has_no_home_plans_without_a_store() -> None:
    save_table("digest", np.zeros(1), np.zeros(1))
    assert load_table("digest") is None


def test_a_cache_folder_may_begin_at_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("CASCADIA_CACHE_DIR", "~/kept")
    assert cache_folder("tables") == Path("/home/ann/kept/tables")

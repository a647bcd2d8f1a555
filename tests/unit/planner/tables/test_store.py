"""What is kept on disk is kept under all that it depends on."""

from pathlib import Path

import pytest

from cascadia.planner.tables.store import code_digest


@pytest.fixture
def simulator(tmp_path: Path) -> Path:
    """A package with a folder in it."""
    nested = tmp_path / "iteration" / "deeper"
    nested.mkdir(parents=True)
    for folder in (tmp_path, nested.parent, nested):
        (folder / "one.py").write_text("A = 1\n")
    return tmp_path


@pytest.mark.parametrize("name", ["one.py", "iteration/one.py", "iteration/deeper/one.py"])
def test_a_change_in_any_folder_of_the_simulator_starts_a_new_store(simulator: Path, name: str) -> None:
    before = code_digest.__wrapped__(simulator)
    assert code_digest.__wrapped__(simulator) == before
    (simulator / name).write_text("A = 2\n")
    assert code_digest.__wrapped__(simulator) != before

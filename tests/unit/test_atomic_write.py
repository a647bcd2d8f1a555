"""Whoever reads a file while it is replaced reads one whole version of it; a writer that fails leaves nothing."""

from pathlib import Path

import pytest

from cascadia.files.atomic import atomic_write


def test_the_old_is_there_until_the_new_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text("old")
    with atomic_write(path, mode=0o600) as part:
        part.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_that_fails_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")

    def fail() -> None:
        with atomic_write(path) as part:
            part.write_text("ne")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("there", [True, False])
def test_what_is_written_by_a_links_name_is_what_it_points_to(tmp_path: Path, there: bool) -> None:
    (tmp_path / "real").mkdir()
    file, link = tmp_path / "real" / "file.txt", tmp_path / "link.txt"
    link.symlink_to(Path("real") / "file.txt")
    if there:
        file.write_text("old")
    with atomic_write(link) as part:
        part.write_text("new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert [path.name for path in file.parent.iterdir()] == ["file.txt"]

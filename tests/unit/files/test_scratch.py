"""Folders for temporary files go with the last process that has them, however it goes."""

import os
import signal
from pathlib import Path

from cascadia.files.scratch import LOCK, remove_left, scratch


def killed(place: Path, *, forks: bool) -> tuple[Path, int]:
    """The folder that a killed process leaves, and the child that it leaves, if any."""
    told, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        with scratch("x-", place) as folder:
            (folder / "0.sock").touch()
            child = os.fork() if forks else -1
            if child:
                os.write(tells, f"{folder}\n{child}".encode())
            signal.pause()
    folder, child = os.read(told, 4096).decode().split("\n")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return Path(folder), int(child)


def test_a_folder_goes_with_its_block(tmp_path: Path) -> None:
    with scratch("x-", tmp_path) as folder:
        assert folder.name.startswith("cascadia-x-")
        remove_left(tmp_path)
        assert (folder / LOCK).exists()
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    folder, _ = killed(tmp_path, forks=False)
    assert (folder / "0.sock").exists()
    with scratch("y-", tmp_path) as mine:
        assert list(tmp_path.iterdir()) == [mine]


def test_a_folder_stays_for_as_long_as_a_child_lives(tmp_path: Path) -> None:
    folder, child = killed(tmp_path, forks=True)
    try:
        remove_left(tmp_path)
        assert folder.exists()
    finally:
        os.kill(child, signal.SIGKILL)
    for _ in range(6000):
        remove_left(tmp_path)
        if not folder.exists():
            return
        signal.sigtimedwait((), 0.01)
    raise AssertionError(folder)


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cascadia-mine").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / LOCK).touch()
    (tmp_path / "cascadia-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "cascadia-file").touch()
    remove_left(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4

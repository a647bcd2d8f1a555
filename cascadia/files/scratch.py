"""Folders for as long as a program runs. One that was killed leaves its folder, which the next one removes."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "cascadia-"
LOCK = ".held"


@contextmanager
def scratch(kind: str = "", within: Path | None = None) -> Iterator[Path]:
    """A new folder `cascadia-KIND…`; `within`: in place of the folder for temporary files.

    It is held by this process and those that it forks, to the end of the last of them.
    """
    place = within or Path(tempfile.gettempdir())
    remove_left(place)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX + kind, dir=place))
    # Held before it has its name: nobody is to find it free meanwhile.
    unnamed = folder / f"{LOCK}.new"
    lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unnamed.rename(folder / LOCK)
        yield folder
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


def remove_left(place: Path) -> None:
    """Removes this user's folders in `place` whose processes have ended."""
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)

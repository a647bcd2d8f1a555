"""A file that is there whole or not at all, whoever reads meanwhile and whatever ends the writer."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PART = ".part"

UNFINISHED: set[Path] = set()
"""Files and folders of this process that are being written and have not taken their name yet."""


@contextmanager
def atomic_write(path: Path, mode: int = 0o644) -> Iterator[Path]:
    """A file of another name in `path`'s folder, to be written; at the end it takes `path`'s name, with `mode`.

    It is removed where writing fails. A link stays, and what it points to is written. Raises `OSError`.
    """
    path = Path(os.path.realpath(path))
    # Beside it, since a rename is atomic within one file system only.
    with unfinished(path.parent, f".{path.name}.", PART) as part:
        # Nobody else's while it is written: keys come this way too.
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield part
        part.chmod(mode)
        part.replace(path)


@contextmanager
def unfinished(folder: Path, prefix: str, suffix: str = "") -> Iterator[Path]:
    """A path that nobody has, for a file or a folder. What stands there when the block ends is removed.

    It is known from before it exists, so that a process that ends in the middle can remove it all the same.
    """
    path = folder / f"{prefix}{os.urandom(6).hex()}{suffix}"
    UNFINISHED.add(path)
    try:
        yield path
    finally:
        remove(path)
        UNFINISHED.discard(path)


def remove_unfinished() -> None:
    """Removes unfinished files, for a process that ends without leaving its blocks."""
    for path in list(UNFINISHED):
        remove(path)


def remove(path: Path) -> None:
    """A file or a folder with all in it; nothing where it cannot be, or is not there."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)

"""Base of every source of model files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

Tell = Callable[[int], None]
"""Is given the number of bytes that are there."""

_EVERY_S = 0.25


def untold(done_bytes: int) -> None:
    """Progress that nobody watches."""


class Unavailable(Exception):
    """This source does not have it, or cannot be reached: the next is asked."""


@contextmanager
def watched(folder: Path, tell: Tell, before_bytes: int, most_bytes: int) -> Iterator[None]:
    """Tells how far another program's download into `folder` is by how much lies there."""
    ended = Event()

    def look() -> None:
        while not ended.wait(_EVERY_S):
            tell(before_bytes + min(most_bytes, _bytes_in(folder)))

    watcher = Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue  # moved while we looked
    return total

"""Lines written by a thread of their own: a disk or a pipe that takes nothing holds that up, and no request."""

import queue
import threading
from collections.abc import Callable, Iterator
from select import PIPE_BUF

MOST_BYTES = 8 * 2**20
"""Lines that wait to be written; what goes beyond is lost, and counted."""


class LogWriter:
    """`write` takes whole lines, and may block. `failed` is told how many lines were lost."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self.failed: Callable[[int], object] = lambda _: None
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._waiting_bytes = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def __call__(self, lines: bytes) -> None:
        """Raises `OSError` where too much waits already."""
        if self._waiting_bytes + len(lines) > MOST_BYTES:
            raise OSError("the log is not being read")
        self._waiting_bytes += len(lines)
        self._lines.put(lines)

    def close(self, wait_s: float = 1.0) -> None:
        """Writes what waits, as far as that takes no longer than `wait_s`."""
        self._lines.put(None)
        self._thread.join(wait_s)

    def _run(self) -> None:
        while (lines := self._lines.get()) is not None:
            for part in parts(lines):
                try:
                    self._write(part)
                except (OSError, ValueError):
                    self.failed(part.count(b"\n"))
                finally:
                    self._waiting_bytes -= len(part)


def parts(lines: bytes) -> Iterator[bytes]:
    """Whole lines, as many at a time as a pipe takes in one piece: of more than that, processes that share a full one
    would write parts in between one another's."""
    begin = 0
    while begin < len(lines):
        end = lines.rfind(b"\n", begin, begin + PIPE_BUF) + 1 or lines.find(b"\n", begin) + 1 or len(lines)
        yield lines[begin:end]
        begin = end

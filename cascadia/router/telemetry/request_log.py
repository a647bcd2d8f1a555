"""One line of JSON a request, without a word of anyone's. Lines are gathered and written together.

A full disk or a closed pipe loses lines, which are counted, and nothing else.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import orjson

FLUSH_S = 0.25
FLUSH_BYTES = 64 * 1024


class Journal:
    """`write` takes whole lines; None keeps none. `failed` is told how many lines were lost."""

    def __init__(
        self,
        write: Callable[[bytes], object] | None,
        failed: Callable[[int], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._write = write
        self._failed = failed
        self._clock = clock
        # Not a list: the heap would grow and shrink with the lines in it, which takes longer than writing them.
        self._lines = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    def line(self, entry: dict[str, Any]) -> None:
        if self._write is None:
            return
        entry["ts"] = int(self._clock() * 1e3) / 1e3
        try:
            self._lines += orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)
        except TypeError:
            # An integer beyond 64 bits, say, which JSON has and orjson does not.
            self._failed(1)
            return
        if len(self._lines) >= FLUSH_BYTES:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = bytes(self._lines), bytearray()
        if not lines or self._write is None:
            return
        try:
            self._write(lines)
        except (OSError, ValueError):
            self._failed(lines.count(b"\n"))

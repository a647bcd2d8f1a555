"""Rows to Parquet files, in a thread. A file has its name when it is whole; the oldest make room for new ones."""

import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cascadia.files.atomic import PART, atomic_write
from cascadia.router.observers.samples_rows import KINDS, Row, batch_of, schema_of, sorted_by
from cascadia.router.settings.model import SampleSettings

if TYPE_CHECKING:
    import pyarrow as pa

MOST_WAITING = 64
"""Batches that may wait for the disk; what comes on top of them is lost, and counted."""
STOP_S = 10.0
STALE_S = 3600.0
"""A part of a file that nobody has touched for so long belongs to a process that is gone."""


class Writer:
    """Writer of one kind of rows. Its thread begins with the first of them."""

    def __init__(
        self,
        kind: str,
        settings: SampleSettings,
        written: Callable[[str, int], None],
        lost: Callable[[str, int], None],
    ) -> None:
        self.kind = kind
        self.settings = settings
        self._written = written
        self._lost = lost
        self._batches: queue.Queue[Sequence[Row] | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._process = f"{os.getpid()}-{os.urandom(3).hex()}"
        self._files = 0

    def take(self, rows: Sequence[Row]) -> None:
        """Takes rows without waiting."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"samples-{self.kind}", daemon=True)
            self._thread.start()
        if self._batches.qsize() >= MOST_WAITING:
            self._lost("queue", len(rows))
            return
        self._batches.put(rows)

    async def stop(self) -> None:
        """Ends the file under way, for `STOP_S` at most."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._batches.put(None)
            await asyncio.to_thread(thread.join, STOP_S)

    def _run(self) -> None:
        schema = schema_of(self.kind, text=self.settings.text)
        held: list[pa.RecordBatch] = []
        rows, began_s = 0, 0.0
        while True:
            wait_s = max(0.0, began_s + self.settings.seconds - time.monotonic()) if held else None
            try:
                batch = self._batches.get(timeout=wait_s)
            except queue.Empty:
                batch = ()
            if batch:
                began_s = began_s if held else time.monotonic()
                held.append(batch_of(batch, schema))
                rows += len(batch)
            late = held and time.monotonic() >= began_s + self.settings.seconds
            if held and (batch is None or late or rows >= self.settings.rows):
                self._end(held, rows)
                held, rows = [], 0
            if batch is None:
                return

    def _end(self, batches: "list[pa.RecordBatch]", rows: int) -> None:
        """One file of `batches`. A disk that is full loses them, and nothing else."""
        import pyarrow as pa
        from pyarrow import parquet

        table = pa.Table.from_batches(batches).sort_by(sorted_by(self.kind))
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        self._files += 1
        path = self.settings.folder / f"{self.kind}-{stamp}-{self._process}-{self._files}.parquet"
        try:
            self._make_room()
            with atomic_write(path) as part, part.open("wb") as file:
                parquet.write_table(table, file, compression="zstd")
                file.flush()
                # Before it gets its name: a crash must not leave half a file that readers take for whole.
                os.fsync(file.fileno())
        except (OSError, pa.ArrowException):
            self._lost("disk", rows)
            return
        self._written(self.kind, rows)
        self._make_room()

    def _make_room(self) -> None:
        """Deletes the oldest files of all kinds together. Other processes may do the same at the same time."""
        for part in self.settings.folder.glob(f".*.parquet.*{PART}"):
            if time.time() - _changed_s(part) > STALE_S:
                part.unlink(missing_ok=True)
        files = [file for kind in KINDS for file in self.settings.folder.glob(f"{kind}-*.parquet")]
        files.sort(key=_changed_s)
        size = sum(_size(file) for file in files)
        for file in files:
            if size <= self.settings.max_bytes:
                return
            size -= _size(file)
            file.unlink(missing_ok=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0

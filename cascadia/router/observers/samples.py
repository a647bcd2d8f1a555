"""The workload log: a row for each sampled request, for whoever plans anew. No text, unless it is asked for.

A request becomes a row when it is over, and that it came is a row at once: a stage that is overloaded is seen to get
much, not to finish little. Rows are handed on in batches to a thread that writes them
(`samples_writer.py`); the event loop never waits for it. Ids are hashes under a key that stays in the folder, so that
rows of one conversation can be told to belong together and nothing else.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.router.cascade.records import Record
from cascadia.router.observers.samples_rows import ARRIVALS, KINDS, QUALITY, REQUESTS, Row
from cascadia.router.observers.samples_writer import Writer
from cascadia.router.openai.bounded import LONG_BYTES, turn_after
from cascadia.router.openai.questions import asked_of
from cascadia.router.openai.requests import Fields, prefix_of
from cascadia.router.openai.texts import prompt_tokens_of
from cascadia.router.settings.model import SampleSettings
from cascadia.router.telemetry.stage_record import Step

BATCH_ROWS = 128
"""Turned into columns in one go, during which no other thread runs: well below a millisecond."""
BATCH_S = 1.0
KEY_FILE = ".hash-key"
MISTAKES = frozenset({400, 401, 403, 404, 405, 413, 415, 422})
"""The client's own: no engine had any work with them, so they are no part of the workload."""


class Samples:
    """`written` is told how many rows of which kind are on disk, `lost` how many are not and why."""

    def __init__(
        self,
        settings: SampleSettings,
        written: Callable[[str, int], None],
        lost: Callable[[str, int], None],
    ) -> None:
        self.settings = settings
        self._key = _key(settings.folder)
        self._rng = random.Random()
        self._lost = lost
        self._writers = {kind: Writer(kind, settings, written, lost) for kind in KINDS}
        self._rows: dict[str, list[Row]] = {kind: [] for kind in self._writers}
        self._timer: asyncio.TimerHandle | None = None
        self._reading: set[asyncio.Task[None]] = set()
        self._mean_output_tokens = 1.0

    def came(self) -> None:
        """A request whose head and body were good."""
        if self._rng.random() < self.settings.ratio:
            self._add(ARRIVALS, {"arrival_s": time.time()})

    def done(self, record: Record) -> None:
        """An observer of requests; of those for which no model has worked nothing is told."""
        if record.entry["api"] == "tokens":
            return
        if self._rng.random() >= self.settings.ratio or record.entry["status"] in MISTAKES:
            return
        if self.settings.text or len(record.body) > LONG_BYTES:
            task = asyncio.get_running_loop().create_task(self._read(record))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)
            return
        self._add(REQUESTS, self._row(record))

    async def _read(self, record: Record) -> None:
        """Adds the row of a request that is read through for it, in turns of its own."""
        row, fields = self._row(record), record.fields
        if self.settings.text:
            await turn_after(record.body)
            row["question"] = (await asked_of(fields)).question if fields else None
        self._add(REQUESTS, row)

    def quality(self, rows: list[Row]) -> None:
        """Rows of a quality table: all stages' of one question together."""
        for row in rows:
            self._add(QUALITY, row)

    def hashed(self, content: bytes) -> str:
        return blake2b(content, digest_size=16, key=self._key).hexdigest()

    def flush(self) -> None:
        """Hands on what there is; a file is ended in its own time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for kind, rows in self._rows.items():
            if rows:
                self._rows[kind] = []
                self._writers[kind].take(rows)

    async def stop(self) -> None:
        """Ends the files; returns when they are there, or cannot be."""
        await asyncio.gather(*self._reading, return_exceptions=True)
        self.flush()
        for writer in self._writers.values():
            await writer.stop()

    def _add(self, kind: str, row: Row) -> None:
        rows = self._rows[kind]
        rows.append(row)
        if len(rows) >= BATCH_ROWS:
            self._rows[kind] = []
            self._writers[kind].take(rows)
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BATCH_S, self.flush)

    def _row(self, record: Record) -> Row:
        entry = record.entry
        step = record.answered
        counted = step is not None and step.counted
        input_tokens = step.input_tokens if step else 0
        output_tokens = step.output_tokens if step else 0
        if output_tokens:
            # Slow enough to be a mean, quick enough to follow a change.
            self._mean_output_tokens += 0.01 * (output_tokens - self._mean_output_tokens)
        fields = record.fields
        row: Row = {
            "arrival_s": time.time() - record.seconds,
            # Who was turned away came all the same: his request is as long as it looks, his answer as others'.
            "input_tokens": input_tokens or max(1, prompt_tokens_of(record.body)),
            "output_tokens": output_tokens or max(1, round(self._mean_output_tokens)),
            "counted": counted,
            "request": self.hashed(entry["request_id"].encode()),
            "session_id": self._session(fields),
            "prompt": self.hashed(_prompt(fields)) if fields else None,
            "api": entry["api"],
            "model": entry["model"],
            "stage": entry.get("stage"),
            "attempts": len(record.steps),
            "status": entry["status"],
            "error": entry.get("error"),
            "stopped": entry.get("stopped"),
            "gear": entry.get("gear"),
            "ttft_s": record.ttft_s,
            "e2e_s": record.seconds,
            "steps": [_step(one) for one in record.steps],
        }
        return row

    def _session(self, fields: Fields | None) -> str:
        """All turns of a conversation begin alike."""
        prefix = prefix_of(fields) if fields else None
        return "" if prefix is None else self.hashed(b"%d" % prefix)


def _prompt(fields: Fields) -> bytes:
    return fields.given("prompt") or fields.given("messages") or fields.given("input")


def _step(step: Step) -> dict[str, Any]:
    return {
        "stage": step.stage,
        "outcome": step.outcome,
        "score": step.score,
        "input_tokens": step.input_tokens,
        "output_tokens": step.output_tokens,
        "counted": step.counted,
        "queue_s": step.queued_s,
        "ttft_s": None if step.first_at_s is None else step.first_at_s - step.started_at_s,
        "seconds": step.seconds,
        "judge_s": step.judge_s if step.judged_at_s is not None else None,
    }


def _key(folder: Path) -> bytes:
    """The folder's own, made by the first who writes there. Raises `BadInput`."""
    path = folder / KEY_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # By chance too: processes of several containers share the folder, and may share their ids.
        beside = folder / f"{KEY_FILE}.{os.getpid()}.{random.randrange(2**32):x}"
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, os.urandom(32))
        finally:
            os.close(descriptor)
        try:
            # A link appears whole or not at all, and does not replace what another process made meanwhile.
            os.link(beside, path)
        except FileExistsError:
            pass
        finally:
            beside.unlink()
        return path.read_bytes()[:64]
    except OSError as error:
        raise BadInput(
            "samples.folder", f"{folder} cannot be written to ({error.strerror})", "name another folder"
        ) from None

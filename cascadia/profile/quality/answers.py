"""The answers' texts, for those who want to read them: JSON lines, in step with the journal."""

import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from cascadia.domain.errors import BadInput
from cascadia.files.atomic import atomic_write
from cascadia.profile.quality.journal import Done


class KeptAnswers:
    """Made by `keep_answers`."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def add(self, done: Done, answer: str) -> None:
        """Writes the answer to the disk before this returns: call it before the journal says that the answer is
        done.
        """
        self._stream.write(json.dumps(asdict(done) | {"answer": answer}).encode() + b"\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())


@contextmanager
def keep_answers(path: Path, done: Collection[tuple[str, str]]) -> Iterator[KeptAnswers]:
    """Goes on writing at `path`: what is there of `done` stays, the rest will be asked for again and goes."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1] if done and path.exists() else []
        kept = {pair: line for line in lines if (pair := _pair(line)) in done}
        with atomic_write(path) as part:
            part.write_bytes(b"".join(line + b"\n" for line in kept.values()))
        stream = path.open("ab")
    except OSError as error:
        raise BadInput(
            str(path), f"cannot be written ({error.strerror})", "name another --keep-answers"
        ) from None
    with stream:
        yield KeptAnswers(stream)


def _pair(line: bytes) -> tuple[str, str] | None:
    try:
        row = json.loads(line)
        return row["prompt_id"], row["stage"]
    except (ValueError, KeyError, TypeError):
        return None

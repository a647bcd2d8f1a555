"""Journal of what a run has done so far, kept line by line so that a crash loses at most what was under way.

The first line says of which inputs; each further line is one finished answer, or one that failed and why. A line is on
the disk before its answer counts as done. Whatever follows the last line's end was being written when the
process died: it is cut off. No prompt and no answer is ever written here.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from cascadia.domain.errors import BadInput

VERSION = 1
_MARK = "cascadia_quality_journal"
_AGAIN = "add --restart to begin anew, or name another --out"


@dataclass(frozen=True, slots=True)
class Done:
    """One answer, scored. `quality` is None where there was no reference to check it against.

    `cut`: it ran into the limit of tokens. `expected`: the score was read from probabilities.
    """

    prompt_id: str
    stage: str
    score: float
    _: KW_ONLY
    quality: float | None
    input_tokens: int
    output_tokens: int
    cut: bool = False
    expected: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """No score: `by` is the stage or `judge`; `kind` is in words that quote nobody."""

    prompt_id: str
    stage: str
    by: str
    kind: str


class Journal:
    """Made by `open_journal`. `done` maps (prompt_id, stage) to what is finished."""

    def __init__(self, stream: BinaryIO, done: dict[tuple[str, str], Done]) -> None:
        self._stream = stream
        self.done = done

    def add(self, outcome: Done | Failed) -> None:
        _append(self._stream, asdict(outcome))
        if isinstance(outcome, Done):
            self.done[outcome.prompt_id, outcome.stage] = outcome


def journal_path(table: Path) -> Path:
    """Path beside the table that the run will write."""
    return table.with_name(table.name + ".journal.jsonl")


@contextmanager
def open_journal(path: Path, inputs: Mapping[str, Any], *, restart: bool) -> Iterator[Journal]:
    """The journal at `path`, for this process alone, with what earlier runs of the same `inputs` have done.

    Raises `BadInput` where it is of other inputs (unless `restart`), damaged, in use, or no journal at all.
    """
    try:
        stream = path.open("a+b")
    except OSError as error:
        raise BadInput(
            str(path), f"cannot be written ({error.strerror})", "name an --out in a writable folder"
        ) from None
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(
                str(path), "another run is writing it", "wait for that run, or name another --out"
            ) from None
        stream.seek(0)
        lines = stream.read().split(b"\n")
        unfinished = lines.pop()
        if lines or unfinished:
            _refuse_strangers(path, lines[0] if lines else unfinished, begun=not lines)
        done = {} if restart else dict(_finished(path, lines))
        if not done:
            # Nothing is lost: the run before, with a model's name misspelt perhaps, got no answer.
            stream.truncate(0)
            _append(stream, {_MARK: VERSION, "inputs": dict(inputs)})
        else:
            _refuse_others(path, json.loads(lines[0])["inputs"], inputs)
            stream.truncate(sum(len(line) + 1 for line in lines))
        yield Journal(stream, done)


def _append(stream: BinaryIO, line: Mapping[str, Any]) -> None:
    stream.write(json.dumps(line).encode() + b"\n")
    stream.flush()
    os.fsync(stream.fileno())


def _refuse_strangers(path: Path, first: bytes, *, begun: bool) -> None:
    """`begun`: the first line has no end yet, so its beginning must do."""
    if begun:
        ours = first.startswith(f'{{"{_MARK}"'.encode()[: len(first)])
    else:
        header = _object(first)
        ours = header is not None and header.get(_MARK) == VERSION and isinstance(header.get("inputs"), dict)
    if not ours:
        what = "is no journal of this command, or of another version of cascadia"
        raise BadInput(str(path), what, "move it away, or name another --out")


def _refuse_others(path: Path, was: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
    # Those too that only the version knew which began it: its answers were got by them.
    other = [name for name in {**inputs, **was} if was.get(name) != inputs.get(name)]
    if other:
        raise BadInput(str(path), f"is of a run with other {' and '.join(other)}", _AGAIN)


def _finished(path: Path, lines: list[bytes]) -> Iterator[tuple[tuple[str, str], Done]]:
    for number, line in enumerate(lines[1:], 2):
        found = _object(line)
        if found is not None and set(found) == set(Failed.__dataclass_fields__):
            continue
        unknown = found.keys() - Done.__dataclass_fields__.keys() if found else set()
        try:
            done = msgspec.convert(found, Done)
        except ValueError:
            raise BadInput(f"{path} line {number}", "is damaged", _AGAIN) from None
        if unknown:
            what = f"is of another version of cascadia: it tells {', '.join(sorted(unknown))}"
            raise BadInput(f"{path} line {number}", what, _AGAIN)
        yield (done.prompt_id, done.stage), done


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None

"""JSON Lines as objects, a batch at a time; what is not one object a line is named by its line."""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from cascadia_traces.checks import Floats, Ints
from cascadia_traces.errors import BadInput
from cascadia_traces.formats.detect import BOM
from cascadia_traces.formats.source import LONGEST_LINE_BYTES, Source

BATCH_BYTES = 8 << 20

Object = dict[str, Any]


class Batch(NamedTuple):
    """Consecutive objects, and the line of each (n)."""

    objects: list[Object]
    line: Ints


def read_objects(source: Source, on_progress: Callable[[int], None]) -> Iterator[Batch]:
    """The file's objects in batches of about BATCH_BYTES; blank lines are passed over."""
    number = 1
    for lines, position in _line_blocks(source):
        numbers = range(number, number + len(lines))
        number += len(lines)
        kept = [(line, n) for line, n in zip(lines, numbers, strict=True) if line and not line.isspace()]
        if kept:
            yield _parsed(source, [line for line, _ in kept], [n for _, n in kept])
        on_progress(position)


def _line_blocks(source: Source) -> Iterator[tuple[list[bytes], int]]:
    """Whole lines, a block at a time, and how far the file below has been read."""
    with source.opened() as (stream, below):
        held, number = stream.read(len(BOM)).removeprefix(BOM), 1
        while block := stream.read(BATCH_BYTES):
            lines = (held + block).split(b"\n")
            held = lines.pop()
            number += len(lines)
            if len(held) > LONGEST_LINE_BYTES:
                raise BadInput(f"{source.name}, line {number}", "longer than 64 MiB", "one object a line")
            if lines:
                yield lines, below.tell()
        yield [held], below.tell()


def _parsed(source: Source, lines: list[bytes], numbers: list[int]) -> Batch:
    try:
        # One call for all is twice as fast as one a line.
        objects = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        objects = []
    # A line that holds "1},{2" would pass above: then the counts differ, and it is found one by one.
    if len(objects) != len(lines) or not all(type(value) is dict for value in objects):
        objects = [_object(f"{source.name}, line {n}", line) for line, n in zip(lines, numbers, strict=True)]
    return Batch(objects, np.array(numbers, dtype=np.int64))


def _object(where: str, line: bytes) -> Object:
    instead = 'write one JSON object a line, like {"arrival_s": 0.5, "input_tokens": 12, "output_tokens": 7}'
    try:
        value = json.loads(line)
    except UnicodeDecodeError as error:
        raise BadInput(where, "not valid UTF-8", "save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        raise BadInput(where, f"not JSON: {error.msg} at character {error.pos + 1}", instead) from error
    except ValueError as error:
        raise BadInput(where, f"not JSON: {error}", instead) from error
    except RecursionError as error:
        raise BadInput(where, "nested too deeply", instead) from error
    if type(value) is not dict:
        raise BadInput(where, f"a JSON {type(value).__name__}, not an object", instead)
    return value


def numbers_of(source: Source, batch: Batch, key: str, values: list[Any]) -> Floats:
    """The values of `key` as float64 (n); None stands for NaN; raises for what is not a number."""
    if not {int, float}.issuperset(map(type, values)):
        for index, value in enumerate(values):
            if value is not None and type(value) not in (int, float):
                where = f"{source.name}, line {batch.line[index]}"
                raise BadInput(where, f"{key} is not a number: {_shown(value)}", "write a number")
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:
        index = next(i for i, value in enumerate(values) if type(value) is int and abs(value) > 1 << 1000)
        where = f"{source.name}, line {batch.line[index]}"
        raise BadInput(where, f"{key} is too large a number", "check its unit") from None


def texts_of(source: Source, batch: Batch, key: str, values: list[Any]) -> list[str]:
    """The values of `key` as text (n); absent ones are empty, numbers are written out."""
    texts = []
    for index, value in enumerate(values):
        if value is not None and not isinstance(value, str | int):
            where = f"{source.name}, line {batch.line[index]}"
            raise BadInput(where, f"{key} is not text: {_shown(value)}", "write it in quotes")
        text = "" if value is None else str(value)
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            where = f"{source.name}, line {batch.line[index]}"
            raise BadInput(where, f"{key} holds half a character (a lone surrogate)", "save it as UTF-8")
        texts.append(text)
    return texts


def _shown(value: Any) -> str:
    return json.dumps(value)[:60]

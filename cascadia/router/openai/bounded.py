"""JSON that somebody else wrote, decoded no further than so many values, and read no more of at once than a slice.

The event loop does both, and everybody else waits meanwhile: a megabyte may hold half a million values, at up to 300 ns
each. What decides how a request is served has a few hundred. What is skipped (`msgspec.Raw`, unknown members) costs
some 4 ns a byte and is not counted.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

MOST_VALUES = 2048
FEW = 1024
"""Items of a list that are each served or read: inputs of a request, and what an engine says of each."""

SMALL_BYTES = 16 * 1024
"""What is no longer than this is read at once, and has no more values than can be."""

LONG_BYTES = 128 * 1024
"""Reading through a body takes up to 5 ms a megabyte, and is done a few times."""

MOST_TOKENS = 2**31
"""Of a request and of an answer. JSON has integers of any size, and one beyond 64 bits in what is added up stays there:
each later request would fail."""
MOST_SAID = 2**24
"""Of an answer, in all its choices: no engine's context holds as many."""

NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Raised by decoders for bytes that are not JSON of their kind: text that is not UTF-8, and what is nested too deep,
have errors of their own."""

T = TypeVar("T")


class _Left:
    """Number of values that may still be decoded: there is one decoding at a time, on the event loop's thread."""

    count = MOST_VALUES


class Counted(Struct):
    """Base whose subclasses are counted: what is decoded into one of these counts as a value; see `decoded`."""

    def __post_init__(self) -> None:
        _count()


class _Name(str):
    """A member's name, counted."""

    __slots__ = ()


def decoded(decoder: "msgspec.json.Decoder[T]", content: bytes) -> T:
    """Raises `msgspec.ValidationError` for more than `MOST_VALUES` of `Counted` in it."""
    _Left.count = MOST_VALUES
    return decoder.decode(content)


def tokens_said(count: float | None) -> int:
    """Tokens as an engine counts them; 0 where it does not, or says what no answer has."""
    return int(count) if count is not None and 0 <= count <= MOST_SAID else 0


def _count() -> None:
    _Left.count -= 1
    if _Left.count < 0:
        # A `ValueError` becomes msgspec's own, and ends the decoding where it stands.
        raise ValueError(f"more than {MOST_VALUES:,} values")


def _counted(_: type, name: Any) -> _Name:
    _count()
    return _Name(name)


_members = msgspec.json.Decoder(dict[str, Raw])
_counted_members = msgspec.json.Decoder(dict[_Name, Raw], dec_hook=_counted)
_listed = msgspec.json.Decoder(list[dict[str, Raw]])
_counted_listed = msgspec.json.Decoder(list[dict[_Name, Raw]], dec_hook=_counted)


_listed_raw = msgspec.json.Decoder(list[Raw])
Few: Any = msgspec.defstruct(
    "Few", [(f"at_{n}", Raw | UnsetType, UNSET) for n in range(FEW + 1)], array_like=True
)
"""A JSON list: items beyond these are skipped, where those of a list would all be made."""
_few = msgspec.json.Decoder(Few)


def items_of(listed: bytes) -> list[bytes]:
    """Items of a JSON list, as they are. Raises `msgspec.DecodeError`, also for more than `FEW`."""
    if len(listed) > SMALL_BYTES:
        return few_in(_few.decode(listed))
    items = _listed_raw.decode(listed)
    if len(items) > FEW:
        raise msgspec.ValidationError(f"more than {FEW:,} items")
    return [bytes(item) for item in items]


def few_in(found: Any) -> list[bytes]:
    """Items of a `Few`, as `items_of` has them."""
    items = [bytes(item) for item in msgspec.structs.astuple(found) if item is not UNSET]
    if len(items) > FEW:
        raise msgspec.ValidationError(f"more than {FEW:,} items")
    return items


def members_of(document: bytes) -> dict[str, Any]:
    """Members of a JSON object, as they are. Raises `msgspec.DecodeError`, also for more than `MOST_VALUES`."""
    if len(document) <= SMALL_BYTES:
        return dict(_members.decode(document))
    return {str(name): value for name, value in decoded(_counted_members, document).items()}


def members_told_apart(document: bytes) -> dict[str, Any] | None:
    """Members as of `members_of`; None where those would be too many, or it is no object."""
    try:
        return members_of(document)
    except NOT_JSON:
        return None


def each_members_of(documents: bytes) -> list[dict[str, Any]]:
    """Members, as `members_of` has them, of each object in a list, all together counted."""
    if len(documents) <= SMALL_BYTES:
        return [dict(each) for each in _listed.decode(documents)]
    found = decoded(_counted_listed, documents)
    return [{str(name): value for name, value in each.items()} for each in found]


def looks_for(mark: bytes) -> Callable[[bytes | bytearray], object]:
    """A search for `mark`, at up to 2 ms a megabyte: `in` takes 6 where the text is of the wrong letters."""
    return re.compile(re.escape(mark)).search


async def turn_after(body: bytes) -> None:
    """Lets others have their turn of the event loop where `body`, which was read through, is long."""
    if len(body) > LONG_BYTES:
        await asyncio.sleep(0)


def values_in(document: bytes) -> int:
    """No fewer than there are in a JSON document, counted at a gigabyte a second."""
    return len(document) - len(document.translate(None, b",[{")) + 1


def lines_in(part: bytes) -> Sequence[bytes]:
    """Lines, with their ends, of one of `slices`."""
    return part.splitlines(keepends=True) if len(part) <= SMALL_BYTES else (part,)


def slices(lines: bytes) -> Iterator[bytes]:
    """`lines` in parts of up to `SMALL_BYTES`, each of whole lines; a line that is longer is one."""
    at = 0
    while at < len(lines):
        end = lines.rfind(b"\n", at, at + SMALL_BYTES) + 1 or lines.find(b"\n", at + SMALL_BYTES) + 1
        yield lines[at : end or len(lines)]
        at = end or len(lines)

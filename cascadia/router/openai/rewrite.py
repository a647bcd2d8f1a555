"""An accepted answer as the client gets it: the engine's own bytes, with what the cascade has to say put beside them.

`cascadia` is added to the document, or in a stream to the event that carries the usage. What the gate needed and the
client did not ask for (log-probabilities, the usage event) is taken out again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import orjson
from msgspec import Raw

from cascadia.router.openai.answers import DONE, Usage, read_event, tells_usage, usage_in
from cascadia.router.openai.bounded import (
    NOT_JSON,
    SMALL_BYTES,
    each_members_of,
    lines_in,
    members_of,
    slices,
    turn_after,
)
from cascadia.router.openai.logprobs import ALL, with_fewer
from cascadia.router.openai.responses import FINALS, final_usage

_NULL = Raw(b"null")
NONE = (b"", b"null")
"""Log-probabilities of an event that has none: vLLM's have `null`, and stay as they are."""
NOTES_MAX = 16
"""Of a stream: an engine tells its usage once, or a few times."""


def with_note(document: bytes, note: dict[str, Any]) -> bytes:
    """`document`, a JSON object, with `note` as its last member `cascadia`."""
    body = document.rstrip()
    # Behind the last member without reading any: the answer's own bytes stay as they are.
    return body[:-1] + b',"cascadia":' + orjson.dumps(note) + b"}"


async def with_logprobs(document: bytes, most: int | None) -> bytes:
    """The document with `most` alternatives of each token, or without its log-probabilities where that is None; as it
    is where it has more members than can be told apart at once.
    """
    await turn_after(document)
    try:
        members = members_of(document)
        await turn_after(document)
        choices = each_members_of(bytes(members["choices"])) if "choices" in members else []
    except NOT_JSON:
        return document
    for choice in choices:
        if "logprobs" in choice:
            choice["logprobs"] = _NULL if most is None else with_fewer(choice["logprobs"], most)
            await turn_after(document)
    members["choices"] = choices
    return msgspec.json.encode(members)


async def released_events(body: bytes, note: dict[str, Any], *, usage: bool, logprobs: int | None) -> bytes:
    """A held stream. `usage`: whether the client asked for it; `logprobs` as of `with_logprobs`."""
    found: list[bytes] = []
    for part in slices(body):
        async for data in _events(part, note, usage=usage, logprobs=logprobs):
            found += (b"data: ", data, b"\n\n")
        if len(part) < len(body):
            await asyncio.sleep(0)
    return b"".join(found)


async def _events(
    body: bytes, note: dict[str, Any], *, usage: bool, logprobs: int | None
) -> AsyncIterator[bytes]:
    for line in lines_in(body):
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data != DONE:
            event = read_event(data)
            if event.usage is not None and not event.choices:
                if not usage:
                    continue
                data = with_note(data, note)
            elif logprobs != ALL and any(
                bytes(choice.logprobs) not in NONE for choice in event.choices or ()
            ):
                data = await with_logprobs(data, logprobs)
        yield data


async def released_response(body: bytes, note: dict[str, Any]) -> bytes:
    """A held stream of a response, with the note in its last event."""
    found: list[bytes] = []
    for part in slices(body):
        found += (_noted_response(line, lambda _: note) for line in lines_in(part))
        await asyncio.sleep(0)
    return b"".join(found)


def _noted_response(line: bytes, note: Callable[[Usage], dict[str, Any]]) -> bytes:
    content = line[5:].strip()
    usage = final_usage(content) if line.startswith(b"data:") else None
    if usage is None:
        return line
    return b"data: " + with_note(content, note(usage)) + b"\n"


class Noting:
    """Adds a note to the usage event of a stream that is passed on as it comes, wherever its parts are cut; without a
    `note` that event is left out.

    `note` is given the usage of the stream itself, so far where each event tells that of one choice. The usage of a
    response is in its last event.
    """

    __slots__ = ("_left_out", "_marks", "_note", "_noted", "_notes_left", "_rest", "_told")

    def __init__(
        self, note: Callable[[Usage], dict[str, Any]] | None = None, *, response: bool = False
    ) -> None:
        self._note = note
        self._left_out = False
        self._notes_left = NOTES_MAX
        self._rest = b""
        self._told = Usage()
        self._marks = FINALS if response else [tells_usage]
        self._noted = self._response_line if response else self._line

    def part(self, data: bytes) -> bytes:
        """The part that can be passed on after `data` came: all but a line that is not whole yet."""
        if self._rest or not data.endswith(b"\n"):
            data = self._rest + data
            whole = data.rfind(b"\n") + 1
            data, self._rest = data[:whole], data[whole:]
        if len(data) <= SMALL_BYTES and not self._left_out:
            for found in self._marks:
                if found(data):
                    break
            else:
                return data
        return b"".join(self._noted(line) for piece in slices(data) for line in lines_in(piece))

    def rest(self) -> bytes:
        data, self._rest = self._rest, b""
        return data

    def _response_line(self, line: bytes) -> bytes:
        return line if self._note is None else _noted_response(line, self._note)

    def _line(self, line: bytes) -> bytes:
        if self._left_out:
            # The empty line that ends an event goes with it.
            self._left_out = False
            if not line.strip():
                return b""
        if not line.startswith(b"data:") or len(line) > SMALL_BYTES or not tells_usage(line):
            # An event with usage has nothing else, and is short.
            return line
        if self._note is not None and not self._notes_left:
            return line
        content = line[5:].strip()
        event = read_event(content)
        if event.usage is None or event.choices:
            return line
        if self._note is None:
            self._left_out = True
            return b""
        self._notes_left -= 1
        usage = usage_in(event)
        self._told = self._told.plus(usage) if event.of_one else usage
        return b"data: " + with_note(content, self._note(self._told)) + line[len(line.rstrip()) :]

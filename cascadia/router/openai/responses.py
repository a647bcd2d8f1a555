"""OpenAI's responses, as far as the cascade must read them.

A response may refer to what one engine keeps (an earlier response, a conversation, a stored prompt, work in the
background). Such a request means that engine and goes straight to its stage; any other is cascaded.
"""

import asyncio
import re
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from cascadia.router.openai.answers import (
    Choice,
    ToolCall,
    Usage,
    Written,
    events,
    refuse_other_than_events,
    refuse_other_than_json,
)
from cascadia.router.openai.bounded import (
    NOT_JSON,
    SMALL_BYTES,
    Counted,
    decoded,
    looks_for,
    slices,
    tokens_said,
    turn_after,
)
from cascadia.router.openai.requests import Fields
from cascadia.router.openai.texts import Turn, text_of
from cascadia.router.upstream.errors import UpstreamError
from cascadia.router.upstream.told_failure import failed_response, told_failure

FINAL = (b"response.completed", b"response.incomplete")
FINALS = [looks_for(mark) for mark in FINAL]
LAST = ("response.completed", "response.incomplete", "response.failed", "error")
"""Types of the events that end a stream."""
ENDED = [
    # With its quotation marks: an answer's own text has a backslash in front of them, and may speak of anything. Each
    # event with a response in it has an `error`, which is null.
    re.compile(rb'"type"\s*:\s*"(?:%b)"' % b"|".join(re.escape(kind).encode() for kind in LAST)).search,
    re.compile(rb'data:\s*\{"error"').search,
]
"""Searches for what the last event of a stream has, and others may have within: a client's metadata, say."""
_reference = looks_for(b'"item_reference"')
_NULL = Raw(b"null")


def refers_elsewhere(fields: Fields) -> str | None:
    """The member of the request that refers to what an engine keeps; None where none does."""
    for name in ("previous_response_id", "conversation", "prompt"):
        if fields.given(name):
            return name
    if fields.given("background") not in (b"", b"false"):
        return "background"
    return "input" if _reference(fields.given("input")) else None


class _Part(Counted):
    text: str | None = None
    refusal: str | None = None


class _OutputItem(Counted):
    type: str = ""
    content: list[_Part] | None = None
    name: str | None = None
    arguments: str | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Response(Struct):
    output: list[_OutputItem]
    status: str | None = None
    usage: _Usage | None = None


class _Counts(Struct):
    usage: Raw = _NULL


class _Typed(Struct):
    type: str = ""


class _Event(_Typed):
    response: Raw = Raw()


class _CountedEvent(_Typed):
    response: _Counts | None = None


E = TypeVar("E", bound=_Typed)
_response = msgspec.json.Decoder(_Response)
_usage = msgspec.json.Decoder(_Usage | None)
_typed = msgspec.json.Decoder(_Typed)
_event = msgspec.json.Decoder(_Event)
_counted_event = msgspec.json.Decoder(_CountedEvent)


async def read_response(content_type: bytes, body: bytes) -> Written:
    """Reads a 200 in JSON. Raises `UpstreamError` where it is no finished response."""
    refuse_other_than_json(content_type)
    return _written(body)


async def read_response_events(content_type: bytes, body: bytes) -> Written:
    """Reads a 200 that is a held event stream: its last event has all of it."""
    refuse_other_than_events(content_type, body)
    for part in slices(body):
        for data in events(part):
            found = final_event(data)
            if found is not None:
                await turn_after(data)
                return _written(found)
        last = last_in(part)
        told = None if last is None else failed_response(b"data:" + last)
        if told is not None:
            raise told
        await asyncio.sleep(0)
    raise UpstreamError("unreadable", "a stream without its end")


def final_event(data: bytes) -> bytes | None:
    """The whole response, which the last event of a stream has; None where `data` is another event."""
    event = _final(_event, data)
    return None if event is None else bytes(event.response)


def final_usage(data: bytes) -> Usage | None:
    """Usage of a response, which the last event of its stream has; None where `data` is another event."""
    event = _final(_counted_event, data)
    if event is None:
        return None
    said = event.response.usage if event.response is not None else _NULL
    try:
        return _counted(_usage.decode(said) if len(memoryview(said)) <= SMALL_BYTES else None)
    except NOT_JSON:
        return Usage()


def last_in(part: bytes) -> bytes | None:
    """Data of the event with which a response's stream ends, by its own type; None where it is not among the events."""
    if not any(found(part) for found in ENDED):
        return None
    for data in (data for piece in slices(part) for data in events(piece)):
        try:
            if data.startswith(b'{"error"') or _typed.decode(data).type in LAST:
                return data
        except NOT_JSON:
            continue
    return None


def usage_told_in(part: bytes) -> Usage | None:
    """Usage that whole events of a response's stream tell; None where the last is not among them, or tells none."""
    told: Usage | None = None
    for data in (data for piece in slices(part) for data in events(piece)):
        try:
            told = final_usage(data) or told
        except UpstreamError:
            # Whoever passes events on unread passes this one on too.
            continue
    return told if told is not None and any(told) else None


def _final(decoder: "msgspec.json.Decoder[E]", data: bytes) -> E | None:
    # To read through a long one takes as long as to look for what says that it is the last.
    if len(data) <= SMALL_BYTES and not any(found(data) for found in FINALS):
        return None
    try:
        event = decoder.decode(data)
    except NOT_JSON:
        raise UpstreamError("unreadable", "an event that is not JSON") from None
    return event if event.type.encode() in FINAL else None


def _written(document: bytes) -> Written:
    try:
        found = decoded(_response, document)
    except NOT_JSON:
        raise told_failure(document) or UpstreamError("unreadable", "no response in JSON") from None
    if found.status not in (None, "completed", "incomplete"):
        raise told_failure(document) or UpstreamError("unreadable", "a response that is not finished")
    choice = Choice(finish=found.status)
    texts: list[str] = []
    for item in found.output:
        if item.type == "message":
            texts += (part.text or part.refusal or "" for part in item.content or ())
        elif item.type == "function_call":
            choice.calls.append(ToolCall(item.name or "", item.arguments or ""))
    choice.text = "".join(texts)
    return Written((choice,), _counted(found.usage))


def _counted(found: _Usage | None) -> Usage:
    return Usage(tokens_said(found.input_tokens), tokens_said(found.output_tokens)) if found else Usage()


class _InputItem(Turn):
    type: str = "message"
    name: str | None = None
    arguments: str | None = None
    output: Raw = Raw(b"null")


_asked = msgspec.json.Decoder(list[_InputItem])
_NOTHING = (b"null", b'""', b"[]")


async def turns_of(fields: Fields) -> list[tuple[str, str]]:
    """Turns of a conversation, as `questions.py` writes it out. Raises `msgspec.MsgspecError`."""
    found: list[tuple[str, str]] = []
    if instructions := fields.given("instructions"):
        found.append(("system", text_of(instructions)))
    given = fields.given("input") or b"[]"
    if given[:1] == b'"':
        return [*found, ("user", text_of(given))]
    items = decoded(_asked, given)
    await turn_after(given)
    for item in items:
        if item.type == "function_call":
            found.append(("assistant", f"[calls {item.name} with {item.arguments}]"))
        else:
            content = bytes(item.content)
            said = text_of(bytes(item.output) if content in _NOTHING else content)
            found.append((item.role if item.type == "message" else "tool", said))
    return found

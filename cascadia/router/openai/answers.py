"""Reading of an engine's whole answer, be it one JSON document or a held event stream.

An answer that is no answer (not JSON, no choices, a stream that breaks off) is an `UpstreamError` of kind `unreadable`.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from cascadia.router.openai.bounded import (
    LONG_BYTES,
    NOT_JSON,
    SMALL_BYTES,
    Counted,
    decoded,
    lines_in,
    members_of,
    slices,
    tokens_said,
    turn_after,
)
from cascadia.router.upstream.errors import UpstreamError
from cascadia.router.upstream.told_failure import told_failure

T = TypeVar("T")
DONE = b"[DONE]"
NOTHING_SAID = b"null"
"""Event of llama.cpp before the first token of several prompts."""
_NULL = Raw(b"null")
EVENTS = b"text/event-stream"
_second = re.compile(rb'"index"\s*:\s*1\b').search
tells_usage = re.compile(rb'"usage"\s*+:\s*+[^n\s]').search
"""An event that tells it; SGLang's others have a null in its place."""
PROBED = b": cascadia_probe "
"""Begin of the comment in which a probe's score stands in a stream."""


class Usage(NamedTuple):
    """Tokens, as the engine counts them; 0 where it does not say."""

    input_tokens: int = 0
    output_tokens: int = 0

    def plus(self, other: "Usage") -> "Usage":
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


class ToolCall(NamedTuple):
    name: str
    arguments: str


class Probed(Struct):
    """Verdict of a probe in front of the engine on its answer: a score 0-100, or why there is none. `judge`
    tells the probe from one that was trained otherwise."""

    score: float | None = None
    failed: str | None = None
    judge: str = ""


@dataclass(slots=True)
class Choice:
    """`logprobs` as the engine wrote them, one entry per part of the answer."""

    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    finish: str | None = None
    logprobs: list[bytes] = field(default_factory=list)
    probed: Probed | None = None

    @property
    def length(self) -> int:
        """Letters that its model wrote."""
        return len(self.text) + sum(len(call.arguments) for call in self.calls)


@dataclass(frozen=True, slots=True)
class Written:
    """`choices` in the order of their index."""

    choices: tuple[Choice, ...]
    usage: Usage


class _Function(Struct):
    """`arguments`: of some engines as an object, which clients get as it is."""

    name: str | None = None
    arguments: str | dict[str, Raw] | None = None


class _Call(Counted):
    index: int | None = 0
    function: _Function | None = None


class _Part(Counted):
    """Of a content in parts; one that is thought has no `text` of its own."""

    text: str | None = None


class _Message(Struct):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None
    """OpenAI's older form of one call."""

    @property
    def said(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content)
        return self.content or self.refusal or ""


class _Choice(Counted):
    index: int | None = 0
    message: _Message | None = None
    delta: _Message | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: Raw = Raw()


class _Usage(Struct):
    """Numbers of JSON, which some write as 12.0."""

    prompt_tokens: int | float | None = None
    completion_tokens: int | float | None = None


class _Document(Struct):
    choices: list[_Choice]
    usage: _Usage | None = None
    timings: Raw = _NULL
    cascadia_probe: Probed | None = None


class _Event(Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Raw = Raw()
    timings: Raw = _NULL

    @property
    def of_one(self) -> bool:
        """Tells whether the usage is of one choice, as llama.cpp's is, which has timings beside it."""
        return self.timings != _NULL


class _LightUsage(Struct, gc=False):
    """Token counts in either vocabulary of OpenAI's."""

    prompt_tokens: int | float | None = None
    completion_tokens: int | float | None = None
    input_tokens: int | float | None = None
    output_tokens: int | float | None = None
    total_tokens: int | float | None = None
    """All that rankings of vLLM's and Jina's say."""

    @property
    def counted(self) -> Usage:
        read = self.prompt_tokens or self.input_tokens
        wrote = self.completion_tokens or self.output_tokens
        if not read and not wrote:
            read = self.total_tokens
        return Usage(tokens_said(read) if read else 0, tokens_said(wrote) if wrote else 0)


class _Light(Struct, gc=False):
    """Outline of an answer that is passed on unseen."""

    choices: Raw = Raw(b"null")
    data: Raw = Raw(b"null")
    output: Raw = Raw(b"null")
    results: Raw = Raw(b"null")
    scores: Raw = Raw(b"null")
    """SGLang's, of texts."""
    usage: _LightUsage | None = None
    timings: Raw = _NULL

    @property
    def counted(self) -> Usage:
        usage = self.usage.counted if self.usage is not None else Usage()
        if self.timings == _NULL or not _second(self.choices):
            return usage
        try:
            listed: list[_Choice] = decoded(_choices, self.choices)
        except NOT_JSON:
            return usage
        choices: dict[int, _Gathered] = {}
        _add(choices, listed)
        return _of_all(usage, _written(choices, usage, None).choices)

    @property
    def holds_something(self) -> bool:
        return any(map(_lists_something, (self.choices, self.data, self.output, self.results, self.scores)))


def _short(decoder: "msgspec.json.Decoder[T]", told: Raw) -> T | None:
    """A member of a long answer; None where it is longer than any."""
    return decoder.decode(told) if len(memoryview(told)) <= SMALL_BYTES else None


def _long_light(body: bytes) -> _Light:
    """Outline of a long answer, whose members are counted: each takes the event loop as long as one that is known, be
    it the same again and again.
    """
    members = members_of(body)
    told = {name: members[name] for name in _Light.__struct_fields__ if name in members}
    return _Light(**told | {"usage": _short(_light_usage, told.get("usage", _NULL))})


async def _document_of(body: bytes) -> _Document:
    """Answer; of a long one as in `_long_light`, and others have their turn before its choices are read."""
    if len(body) <= LONG_BYTES:
        return decoded(_document, body)
    members = members_of(body)
    await turn_after(body)
    choices = decoded(_choices, members.get("choices", _NULL))
    usage = _short(_document_usage, members.get("usage", _NULL))
    probe = _short(_document_probe, members.get("cascadia_probe", _NULL))
    return _Document(choices, usage, members.get("timings", _NULL), probe)


def _lists_something(found: Raw | bytes) -> bool:
    # A view of its beginning: the list itself may be megabytes.
    begin = bytes(memoryview(found)[:64])
    return begin.startswith(b"[{") or (begin[:1] == b"[" and begin[1:].lstrip()[:1] != b"]")


_document = msgspec.json.Decoder(_Document)
_event = msgspec.json.Decoder(_Event)
_choices = msgspec.json.Decoder(list[_Choice])
_document_usage = msgspec.json.Decoder(_Usage | None)
_document_probe = msgspec.json.Decoder(Probed | None)
_light = msgspec.json.Decoder(_Light)
_light_usage = msgspec.json.Decoder(_LightUsage | None)
_probed = msgspec.json.Decoder(Probed)
_JSON = b"application/json"
_TOKENS = frozenset({"tokens", "prompt", "text", "content"})
"""Of vLLM, SGLang and llama.cpp."""


def usage_of_reply(content_type: bytes, body: bytes) -> Usage:
    """Usage of a 200 that is passed on unseen. Raises `UpstreamError` where it is no completion, embedding, response,
    classification or ranking. A ranking of SGLang's is a list, without usage.
    """
    if not content_type.startswith(_JSON):
        refuse_other_than_json(content_type)
    if body[:1] == b"[" and _lists_something(body):
        return Usage()
    try:
        found = _light.decode(body) if len(body) <= LONG_BYTES else _long_light(body)
    except NOT_JSON:
        raise UpstreamError("unreadable", "no answer in JSON") from None
    if not (_lists_something(found.choices) or found.holds_something):
        raise told_failure(body) or UpstreamError("unreadable", "an answer without content")
    return found.counted


def tokens_of_reply(content_type: bytes, body: bytes) -> Usage:
    """As `usage_of_reply`, of a 200 with tokens, or with the text of some, be there none: it took none."""
    if not content_type.startswith(_JSON):
        refuse_other_than_json(content_type)
    try:
        members = members_of(body)
    except NOT_JSON:
        raise UpstreamError("unreadable", "no answer in JSON") from None
    if not _TOKENS & members.keys():
        raise told_failure(body) or UpstreamError("unreadable", "an answer without content")
    return Usage()


def usage_of_event(data: bytes) -> tuple[Usage, bool] | None:
    """Usage that an event of a stream tells, and whether that is of one choice alone; None where it tells none."""
    try:
        found = _light.decode(data)
    except NOT_JSON:
        return None
    usage = Usage() if found.usage is None else found.usage.counted
    return (usage, found.timings != _NULL) if any(usage) else None


async def read_tokens(content_type: bytes, body: bytes) -> Usage:
    """Usage as of `tokens_of_reply`."""
    usage = tokens_of_reply(content_type, body)
    await turn_after(body)
    return usage


async def read_usage(content_type: bytes, body: bytes) -> Usage:
    """Usage as of `usage_of_reply`, for whoever may have to wait."""
    usage = usage_of_reply(content_type, body)
    await turn_after(body)
    return usage


async def read_document(content_type: bytes, body: bytes) -> Written:
    """Reads a 200 in JSON."""
    refuse_other_than_json(content_type)
    try:
        found = await _document_of(body)
    except NOT_JSON:
        raise told_failure(body) or UpstreamError("unreadable", "no completion in JSON") from None
    choices: dict[int, _Gathered] = {}
    _add(choices, found.choices)
    written = _written(choices, _usage(found.usage), found.cascadia_probe)
    if len(choices) == 1 or found.timings == _NULL:
        return written
    return Written(written.choices, _of_all(written.usage, written.choices))


async def read_events(content_type: bytes, body: bytes) -> Written:
    """Reads a 200 that is a held event stream. Others have their turn between its parts."""
    refuse_other_than_events(content_type, body)
    choices: dict[int, _Gathered] = {}
    usage, done, probed = Usage(), False, None
    for part in slices(body):
        probed = _probed_in(part) or probed
        for data in events(part):
            if data == DONE:
                done = True
                continue
            found = read_event(data)
            if bytes(found.error) not in (b"", b"null"):
                raise told_failure(data) or UpstreamError("unreadable", "an error in the stream")
            _add(choices, found.choices or ())
            if found.usage is not None:
                usage = usage.plus(_usage(found.usage)) if found.of_one else _usage(found.usage)
        if len(part) < len(body):
            await asyncio.sleep(0)
    if not done:
        raise UpstreamError("unreadable", "a stream without its end")
    return _written(choices, usage, probed)


def _probed_in(part: bytes) -> Probed | None:
    if len(part) > SMALL_BYTES:
        return None
    begin = part.find(PROBED)
    if begin < 0 or part[begin - 1 : begin] not in (b"", b"\n"):
        return None
    try:
        return _probed.decode(part[begin + len(PROBED) :].partition(b"\n")[0])
    except NOT_JSON:
        return None


def read_event(data: bytes) -> _Event:
    if data == NOTHING_SAID:
        return _Event()
    try:
        return decoded(_event, data)
    except NOT_JSON:
        raise UpstreamError("unreadable", "an event that is not JSON") from None


def usage_in(event: _Event) -> Usage:
    return _usage(event.usage)


def events(body: bytes) -> Iterator[bytes]:
    """The data of each server-sent event."""
    for line in lines_in(body):
        if line.startswith(b"data:"):
            yield line[5:].strip()


def refuse_other_than_json(content_type: bytes) -> None:
    """Raises `UpstreamError`: whatever else this is, it is not an OpenAI-compatible engine's answer."""
    if not content_type.startswith(_JSON):
        raise UpstreamError("unreadable", "not JSON by its content type")


def refuse_other_than_events(content_type: bytes, body: bytes) -> None:
    """Raises `UpstreamError`, the engine's own refusal where `body` is one, told whole."""
    if not content_type.startswith(EVENTS):
        told = told_failure(body) if content_type.startswith(_JSON) else None
        raise told or UpstreamError("unreadable", "not an event stream by its content type")


@dataclass(slots=True)
class _Gathered:
    """A choice as it comes in parts. They are joined at the end: each on its own would cost all before it again."""

    texts: list[str] = field(default_factory=list)
    calls: list[tuple[str, list[str]]] = field(default_factory=list)
    finish: str | None = None
    logprobs: list[bytes] = field(default_factory=list)

    @property
    def choice(self) -> Choice:
        calls = [ToolCall(name, "".join(arguments)) for name, arguments in self.calls]
        return Choice("".join(self.texts), calls, self.finish, self.logprobs)


def _add(choices: dict[int, _Gathered], found: Iterable[_Choice]) -> None:
    for part in found:
        choice = choices.get(part.index or 0)
        if choice is None:
            choice = choices[part.index or 0] = _Gathered()
        message = part.message or part.delta
        if message is not None:
            choice.texts.append(message.said)
            older = message.function_call
            for call in message.tool_calls or ([_Call(function=older)] if older is not None else ()):
                _add_call(choice, call, whole=part.message is not None)
        if part.text:
            choice.texts.append(part.text)
        choice.finish = part.finish_reason or choice.finish
        logprobs = bytes(part.logprobs)
        if logprobs not in (b"", b"null"):
            choice.logprobs.append(logprobs)


def _add_call(choice: _Gathered, call: _Call, *, whole: bool) -> None:
    """Adds a part of a call, which comes in a stream in parts, told apart by their index; only the first has a
    name.
    """
    name = (call.function.name if call.function else None) or ""
    given = (call.function.arguments if call.function else None) or ""
    arguments = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    at = len(choice.calls) if call.index is None else call.index
    if whole or not 0 <= at < len(choice.calls):
        choice.calls.append((name, [arguments]))
        return
    before, parts = choice.calls[at]
    parts.append(arguments)
    choice.calls[at] = (before or name, parts)


def _usage(found: _Usage | None) -> Usage:
    return Usage(tokens_said(found.prompt_tokens), tokens_said(found.completion_tokens)) if found else Usage()


def _of_all(usage: Usage, choices: Sequence[Choice]) -> Usage:
    """Usage of all `choices` where the engine told that of the first alone, as llama.cpp does: each has read the
    prompt, and written in proportion to its letters."""
    first, letters = choices[0].length, sum(choice.length for choice in choices)
    times = letters / first if first else len(choices)
    return Usage(usage.input_tokens * len(choices), round(usage.output_tokens * times))


def _written(choices: dict[int, _Gathered], usage: Usage, probed: Probed | None) -> Written:
    if not choices:
        raise UpstreamError("unreadable", "no choices")
    found = tuple(choices[index].choice for index in sorted(choices))
    if probed is not None and len(found) == 1:
        found[0].probed = probed
    return Written(found, usage)

"""Answers refused without a judge: empty, not of the form that was asked for, calls other than those that were."""

import msgspec
from msgspec import Raw, Struct

from cascadia.router.examiner.examiner import Examiner
from cascadia.router.openai.answers import Choice
from cascadia.router.openai.bounded import NOT_JSON, Counted, decoded
from cascadia.router.openai.requests import Fields


class _Schema(Struct):
    schema: Raw = Raw(b"null")


class _Format(Struct):
    """`schema`: as llama.cpp has it."""

    type: str = "text"
    json_schema: _Schema | None = None
    schema: Raw = Raw(b"null")


class _Structured(Struct):
    """vLLM's `structured_outputs`, as far as its answer can be looked at here. `json` is a schema, or its text."""

    json: Raw = Raw(b"null")
    json_object: bool | None = None
    choice: list[str] | None = None


class _Function(Struct):
    name: str = ""


class _Tool(Counted):
    """A tool, or the choice of one. Responses name the function in the tool itself."""

    type: str = "function"
    function: _Function | None = None
    name: str = ""


class _ResponseFormat(Struct):
    type: str = "text"
    schema: Raw = Raw(b"null")


class _Text(Struct):
    format: _ResponseFormat | None = None


_format = msgspec.json.Decoder(_Format)
_text = msgspec.json.Decoder(_Text)
_structured = msgspec.json.Decoder(_Structured)
_tools = msgspec.json.Decoder(list[_Tool])
_tool = msgspec.json.Decoder(_Tool)
_string = msgspec.json.Decoder(str)


_object = msgspec.json.Decoder(dict[str, Raw])
_any = msgspec.json.Decoder(Raw)


async def refusal(fields: Fields, choice: Choice, examiner: Examiner) -> str | None:
    """Reason why `choice` has score 0 whatever a judge would say; None where a judge must be asked."""
    if not choice.text.strip() and not choice.calls:
        return "empty"
    must, named = _chosen(fields)
    if choice.calls:
        return _calls_refusal(fields, choice, named) if must is not False else "call"
    if must:
        return "no-call"
    structured = _structured_of(fields)
    if structured.choice is not None and choice.text not in structured.choice:
        return "no-choice"
    wanted, schema = _wanted(fields, structured)
    if wanted not in ("json_object", "json_schema"):
        return None
    if not _is(_any, choice.text):
        return "not-json"
    # Whether a schema that cannot be applied is right is between client and engine: it refuses nothing.
    if schema.startswith(b"{") and await examiner.meets(schema, choice.text) is False:
        return "schema"
    return None


def _tools_of(fields: Fields) -> list[_Tool]:
    try:
        return decoded(_tools, fields.given("tools") or b"[]")
    except NOT_JSON:
        return []


def _chosen(fields: Fields) -> tuple[bool | None, str]:
    """Whether the answer must have calls (False: none), and of which tool alone; None and empty where its model
    chooses."""
    given = fields.given("tool_choice")
    if given == b'"none"':
        return False, ""
    if given == b'"required"':
        # Calls of an API's own tools, such as a search, are none that can be read here.
        return all(tool.type == "function" for tool in _tools_of(fields)) or None, ""
    try:
        chosen = _tool.decode(given) if given.startswith(b"{") else _Tool()
    except NOT_JSON:
        chosen = _Tool()
    named = chosen.function.name if chosen.function else chosen.name
    named = named if chosen.type == "function" else ""
    return (True if named else None), named


def _calls_refusal(fields: Fields, choice: Choice, named: str) -> str | None:
    if fields.given("parallel_tool_calls") == b"false" and len(choice.calls) > 1:
        return "calls"
    names = {tool.function.name if tool.function else tool.name for tool in _tools_of(fields)} - {""}
    names = {named} if named else names
    for call in choice.calls:
        if names and call.name not in names:
            return "unknown-tool"
        if not _is(_object, call.arguments or "{}"):
            return "tool-arguments"
    return None


def _structured_of(fields: Fields) -> _Structured:
    try:
        return _structured.decode(fields.given("structured_outputs") or b"{}")
    except NOT_JSON:
        return _Structured()


def _wanted(fields: Fields, structured: _Structured) -> tuple[str, bytes]:
    """The form that the answer must have, and its schema; text where what was asked for cannot be read."""
    try:
        schema = bytes(structured.json)
        if structured.json_object or schema != b"null":
            return "json_schema", _string.decode(schema).encode() if schema[:1] == b'"' else schema
        if content := fields.given("text"):
            found = _text.decode(content).format or _ResponseFormat()
            return found.type, bytes(found.schema)
        wanted = _format.decode(fields.given("response_format") or b"{}")
    except NOT_JSON:
        return "text", b""
    return wanted.type, bytes(wanted.json_schema.schema if wanted.json_schema else wanted.schema)


def _is(decoder: "msgspec.json.Decoder[Raw] | msgspec.json.Decoder[dict[str, Raw]]", text: str) -> bool:
    """Tells whether `text` is JSON of the decoder's kind. Nothing is built of it: that takes a hundredth of the
    time.
    """
    try:
        decoder.decode(text)
    except (*NOT_JSON, UnicodeEncodeError):
        return False
    return True

"""Answers refused without a judge: empty, no JSON where JSON was asked for, calls of a tool that is none."""

import msgspec
from msgspec import Raw, Struct

from cascadia.router.examiner.examiner import Examiner
from cascadia.router.openai.answers import Choice
from cascadia.router.openai.bounded import NOT_JSON, Counted, decoded
from cascadia.router.openai.requests import Fields


class _Schema(Struct):
    schema: Raw = Raw(b"null")


class _Format(Struct):
    type: str = "text"
    json_schema: _Schema | None = None


class _Function(Struct):
    name: str = ""


class _Tool(Counted):
    """Responses name the function in the tool itself."""

    function: _Function | None = None
    name: str = ""


class _ResponseFormat(Struct):
    type: str = "text"
    schema: Raw = Raw(b"null")


class _Text(Struct):
    format: _ResponseFormat | None = None


_format = msgspec.json.Decoder(_Format)
_text = msgspec.json.Decoder(_Text)
_tools = msgspec.json.Decoder(list[_Tool])


_object = msgspec.json.Decoder(dict[str, Raw])
_any = msgspec.json.Decoder(Raw)


async def refusal(fields: Fields, choice: Choice, examiner: Examiner) -> str | None:
    """Reason why `choice` has score 0 whatever a judge would say; None where a judge must be asked."""
    if not choice.text.strip() and not choice.calls:
        return "empty"
    if choice.calls:
        return _calls_refusal(fields, choice)
    wanted, schema = _wanted(fields)
    if wanted not in ("json_object", "json_schema"):
        return None
    if not _is(_any, choice.text):
        return "not-json"
    # Whether a schema that cannot be applied is right is between client and engine: it refuses nothing.
    if schema.startswith(b"{") and await examiner.meets(schema, choice.text) is False:
        return "schema"
    return None


def _calls_refusal(fields: Fields, choice: Choice) -> str | None:
    try:
        tools = decoded(_tools, fields.given("tools") or b"[]")
    except NOT_JSON:
        tools = []
    names = {tool.function.name if tool.function else tool.name for tool in tools} - {""}
    for call in choice.calls:
        if names and call.name not in names:
            return "unknown-tool"
        if not _is(_object, call.arguments or "{}"):
            return "tool-arguments"
    return None


def _wanted(fields: Fields) -> tuple[str, bytes]:
    """The form that the answer must have, and its schema; text where what was asked for cannot be read."""
    try:
        if content := fields.given("text"):
            found = _text.decode(content).format or _ResponseFormat()
            return found.type, bytes(found.schema)
        wanted = _format.decode(fields.given("response_format") or b"{}")
    except NOT_JSON:
        return "text", b""
    return wanted.type, bytes(wanted.json_schema.schema) if wanted.json_schema else b""


def _is(decoder: "msgspec.json.Decoder[Raw] | msgspec.json.Decoder[dict[str, Raw]]", text: str) -> bool:
    """Tells whether `text` is JSON of the decoder's kind. Nothing is built of it: that takes a hundredth of the
    time.
    """
    try:
        decoder.decode(text)
    except (*NOT_JSON, UnicodeEncodeError):
        return False
    return True

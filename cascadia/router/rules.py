"""Answers refused without a judge: empty, no JSON where JSON was asked for, calls of a tool that is none."""

import json
from typing import Any

import msgspec
from msgspec import Struct

from cascadia.router.answers import Choice
from cascadia.router.requests import Fields


class _Format(Struct):
    type: str = "text"
    json_schema: dict[str, Any] | None = None


class _Function(Struct):
    name: str = ""


class _Tool(Struct):
    """Responses name the function in the tool itself."""

    function: _Function | None = None
    name: str = ""


class _ResponseFormat(Struct):
    type: str = "text"
    schema: dict[str, Any] | None = None


class _Text(Struct):
    format: _ResponseFormat | None = None


_format = msgspec.json.Decoder(_Format)
_text = msgspec.json.Decoder(_Text)
_tools = msgspec.json.Decoder(list[_Tool])


def refusal(fields: Fields, choice: Choice) -> str | None:
    """Why `choice` has score 0 whatever a judge would say; None where a judge must be asked."""
    if not choice.text.strip() and not choice.calls:
        return "empty"
    if choice.calls:
        return _calls_refusal(fields, choice)
    return _format_refusal(fields, choice.text)


def _calls_refusal(fields: Fields, choice: Choice) -> str | None:
    try:
        tools = _tools.decode(fields.given("tools") or b"[]")
    except msgspec.MsgspecError:
        tools = []
    names = {tool.function.name if tool.function else tool.name for tool in tools} - {""}
    for call in choice.calls:
        if names and call.name not in names:
            return "unknown-tool"
        if not isinstance(_parsed(call.arguments or "{}"), dict):
            return "tool-arguments"
    return None


def _format_refusal(fields: Fields, text: str) -> str | None:
    wanted, schema = _wanted(fields)
    if wanted not in ("json_object", "json_schema"):
        return None
    document = _parsed(text)
    if document is _NOT_JSON:
        return "not-json"
    if isinstance(schema, dict) and not _admits(schema, document):
        return "schema"
    return None


def _wanted(fields: Fields) -> tuple[str, Any]:
    """The form that the answer must have, and its schema; text where what was asked for cannot be read."""
    try:
        if content := fields.given("text"):
            found = _text.decode(content).format or _ResponseFormat()
            return found.type, found.schema
        wanted = _format.decode(fields.given("response_format") or b"{}")
    except msgspec.MsgspecError:
        return "text", None
    return wanted.type, (wanted.json_schema or {}).get("schema")


_NOT_JSON = object()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _admits(schema: dict[str, Any], document: Any) -> bool:
    """A schema that cannot be applied refuses nothing: whether it is right is between client and engine."""
    from jsonschema import Draft202012Validator, SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        Draft202012Validator.check_schema(schema)
        # A registry of its own: nothing that a client writes may have a schema fetched from anywhere.
        return Draft202012Validator(schema, registry=Registry()).is_valid(document)
    except (SchemaError, Unresolvable, RecursionError):
        return True

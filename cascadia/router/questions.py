"""The question and the answer as a judge reads them."""

from typing import Any

import msgspec
from msgspec import Struct

from cascadia.router.answers import Choice
from cascadia.router.requests import Fields
from cascadia.router.responses import turns_of


class _Message(Struct):
    role: str = "user"
    content: Any = None


_messages = msgspec.json.Decoder(list[_Message])
_prompt = msgspec.json.Decoder(Any)


def question(fields: Fields) -> str:
    """A single user message as it is; a conversation line by line, each with who said it. Empty where unreadable."""
    try:
        if prompt := fields.given("prompt"):
            return _text(_prompt.decode(prompt))
        turns = _turns(fields)
    except msgspec.MsgspecError:
        return ""
    if len(turns) == 1:
        return _text(turns[0][1])
    return "\n".join(f"{role}: {_text(content)}" for role, content in turns)


def last_said(fields: Fields) -> str | None:
    """What the user said last; None where there are no messages, or none of a user."""
    try:
        turns = _turns(fields)
    except msgspec.MsgspecError:
        return None
    return next((_text(content) for role, content in reversed(turns) if role == "user"), None)


def _turns(fields: Fields) -> list[tuple[str, Any]]:
    """Role and content of each message, or of each item of a response's input. Raises `MsgspecError`."""
    if fields.given("input"):
        return turns_of(fields)
    messages = _messages.decode(fields.given("messages") or b"[]")
    return [(message.role, message.content) for message in messages]


def answer(choice: Choice) -> str:
    """Its text; calls of tools are written out."""
    calls = "\n".join(f"[calls {call.name} with {call.arguments}]" for call in choice.calls)
    return "\n".join(part for part in (choice.text, calls) if part)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(_part(part) for part in content)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else f"[{part.get('type', 'something')}]"

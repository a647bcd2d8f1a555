"""The text in what a message holds: a string, or a list of parts; those without text are named by their type."""

from typing import Any

import msgspec
from msgspec import Raw

from cascadia.router.openai.bounded import MOST_VALUES, Counted, decoded, looks_for, values_in


class Turn(Counted):
    """A message; its content is read by `text_of`."""

    role: str = "user"
    content: Raw = Raw(b"null")


class _Part(Counted):
    type: Raw = Raw(b'"something"')
    text: Raw = Raw()


_NOT_TEXT = [
    looks_for(mark)
    for mark in (b'"image_url"', b'"input_image"', b'"input_audio"', b'"video_url"', b'"file"')
]


def tells_of_media(part: bytes) -> bool:
    """Tells whether a part of a request names pictures or the like, whose bytes say nothing of tokens, and which few
    models read."""
    return any(found(part) for found in _NOT_TEXT)


_list = msgspec.json.Decoder(list[Any])
_parts = msgspec.json.Decoder(list[_Part])
_string = msgspec.json.Decoder(str)


def text_of(content: bytes) -> str:
    """Empty for what holds no text, or more values than are read. Raises `MsgspecError`."""
    if content[:1] == b'"':
        return _string.decode(content)
    if content[:1] != b"[":
        return ""
    if values_in(content) <= MOST_VALUES:
        return "\n".join(_text(part) for part in _list.decode(content))
    try:
        parts = decoded(_parts, content)
    except msgspec.ValidationError:
        return ""
    return "\n".join(map(_long_text, parts))


def _text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else f"[{part.get('type', 'something')}]"


def _long_text(part: _Part) -> str:
    text, kind = bytes(part.text), bytes(part.type)
    if text[:1] == b'"':
        return _string.decode(text)
    return f"[{_string.decode(kind)}]" if kind[:1] == b'"' else "[something]"

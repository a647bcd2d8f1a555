"""The text in what a message holds: a string, or a list of parts; those without text are named by their type."""

import re
from typing import Any

import msgspec
from msgspec import Raw

from cascadia.router.openai.bounded import MOST_VALUES, SMALL_BYTES, Counted, decoded, looks_for, values_in

BYTES_PER_TOKEN = 4
MEDIA_TOKENS = 1024
"""Of a picture or the like, which engines cut into a few hundred to a few thousand pieces."""
MOST_MEDIA = 256
"""Of one request, beyond which letters count."""
_ENCODED = re.compile(rb'"data(?::[^";,]{0,100};base64,|"\s*:\s*")')


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


def prompt_tokens_of(body: bytes) -> int:
    """An estimate; only its ratio to others' counts. What is encoded in it, a picture say, has far fewer tokens than
    its letters would, and counts for `MEDIA_TOKENS`."""
    count, letters, at = 0, len(body), 0
    if letters <= SMALL_BYTES:
        return letters // BYTES_PER_TOKEN
    for _ in range(MOST_MEDIA):
        at = body.find(b'"data', at)
        if at < 0:
            break
        begins = _ENCODED.match(body, at)
        # In a text, where quotation marks have a backslash in front, it is read letter by letter.
        if begins is None or body[at - 1 : at] == b"\\":
            at += 1
            continue
        end = body.find(b'"', begins.end())
        at = len(body) if end < 0 else end
        if at - begins.end() > BYTES_PER_TOKEN * MEDIA_TOKENS:
            count, letters = count + 1, letters - (at - begins.end())
    return letters // BYTES_PER_TOKEN + MEDIA_TOKENS * count


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

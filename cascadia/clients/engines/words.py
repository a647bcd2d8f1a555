"""An engine's own words for what went wrong."""

import json

QUOTED = 200
"""Of them, as much as fits on a line."""


def engine_words(body: bytes, most: int = QUOTED) -> str:
    """The message in an error's body, whichever of the usual shapes it has: up to `most` characters of it."""
    text = body.decode(errors="replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text[:most]
    if isinstance(found, dict):
        for key in ("error", "detail", "message"):
            inner = found.get(key, found)
            if isinstance(inner, dict):
                found = inner
            elif inner:
                return str(inner)[:most]
    return text[:most]

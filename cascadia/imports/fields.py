"""Values inside rows of other programs' files: found by path, and read as a moment, a number, a truth or a text."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from cascadia.files.written import written_number
from cascadia_traces.formats.epoch import epoch_s_of, epoch_s_of_date, is_day

TRUE = ("true", "t", "yes", "y")
FALSE = ("false", "f", "no", "n")


def at(row: Any, path: str) -> Any:
    """The value at `path`, such as `response.choices.0.message.content`; None where there is none.

    A name with dots in it counts as it is before it counts as a path, as in tables that were flattened. JSON that a
    cell of a CSV holds as text is entered.
    """
    if isinstance(row, Mapping) and path in row:
        return _absent_as_none(row[path])
    head, _, rest = path.partition(".")
    inner = _entered(row)
    if isinstance(inner, Mapping):
        found = inner.get(head)
    elif isinstance(inner, Sequence) and not isinstance(inner, str) and head.isdecimal():
        found = inner[int(head)] if int(head) < len(inner) else None
    else:
        return None
    return at(found, rest) if rest else _absent_as_none(found)


def moment_s(value: Any) -> float:
    """Seconds since 1970 of a date or a number (s, ms, us or ns, told by its size); NaN for what is neither."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, str):
        if is_day(value):
            return math.nan
        try:
            return epoch_s_of_date(value.strip().removesuffix(" UTC"))
        except ValueError:
            pass
    return epoch_s_of(number(value))


def number(value: Any) -> float:
    """A number, written out or not; NaN for what is none, truths included."""
    if isinstance(value, bool):
        return math.nan
    if isinstance(value, str):
        return written_number(value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def truth(value: Any) -> bool | None:
    """True or false, however it is spelt; None for what is neither. 0 and 1 are numbers."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    word = value.strip().lower()
    return True if word in TRUE else False if word in FALSE else None


def text_of(value: Any) -> str | None:
    """Text of a prompt or an answer: as it is, or the contents of chat messages, one a line. None where it has none."""
    value = _entered(value)
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, Mapping):
        return text_of(next((value[key] for key in ("content", "text", "messages") if key in value), None))
    if isinstance(value, Sequence):
        parts = [part for part in map(text_of, value) if part is not None]
        return "\n".join(parts) or None
    return None


def messages_of(value: Any) -> list[dict[str, Any]] | None:
    """Chat messages in OpenAI's form, where `value` is such a list; None where it is not."""
    value = _entered(value)
    if isinstance(value, Mapping):
        value = value.get("messages")
    if not isinstance(value, list) or not value:
        return None
    whole = all(isinstance(one, Mapping) and "role" in one and one.get("content") for one in value)
    return [{"role": one["role"], "content": one["content"]} for one in value] if whole else None


def _entered(value: Any) -> Any:
    """The value, or what it is the JSON of."""
    if isinstance(value, str) and value[:1] in "[{" and value[:1]:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _absent_as_none(value: Any) -> Any:
    """The value, or None for what holds nothing: an empty cell, an empty object, NaN."""
    if isinstance(value, float) and math.isnan(value):
        return None
    return None if isinstance(value, str | Mapping | list) and not value else value

"""Prompts to measure quality with, from records: each question once, by its text."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.imports.fields import messages_of, text_of
from cascadia.imports.lengths import without_failed
from cascadia.imports.records import Record, Records


def prompts_of(
    found: Records, *, reference: bool = False, note: Callable[[str], None] = lambda _: None
) -> list[dict[str, Any]]:
    """Rows of `prompt_id`, `prompt` or `messages`, and with `reference` that too. A question asked twice is one prompt;
    rows without text are left out and counted. Raises `BadInput`."""
    found.refuse_missing([("prompt",), *([("reference",)] if reference else [])], {})
    without_failed(found, note)
    rows: dict[str, dict[str, Any]] = {}
    names: set[str] = set()
    empty = 0
    for record in found.records:
        row = _row(record, reference)
        if row is None:
            empty += 1
            continue
        asked = json.dumps([row.get("prompt"), row.get("messages")], sort_keys=True, default=str)
        if asked in rows:
            continue
        name = str(record.get("prompt_id") or _digest(asked))
        rows[asked] = {"prompt_id": name if name not in names else f"{name}-{_digest(asked)}", **row}
        names.add(rows[asked]["prompt_id"])
    if not rows:
        raise BadInput(
            found.source, "no row has a prompt in it", "log the requests' text, or --map prompt=COLUMN"
        )
    again = len(found.records) - empty - len(rows)
    if again:
        note(f"{again:,} requests ask what another asks, and are one prompt with it")
    if empty:
        note(f"left out {empty:,} rows without the text of a prompt")
    return list(rows.values())


def prompt_name(record: Record) -> str | None:
    """The name of a record's prompt, made of its text where it has none."""
    if "prompt_id" in record:
        return str(record.get("prompt_id"))
    text = text_of(record.get("prompt"))
    return None if text is None else _digest(text)


def _row(record: Record, reference: bool) -> dict[str, Any] | None:
    messages = messages_of(record.get("prompt"))
    text = None if messages else text_of(record.get("prompt"))
    if not messages and text is None:
        return None
    row: dict[str, Any] = {"messages": messages} if messages else {"prompt": text}
    if reference:
        if "reference" not in record:
            raise BadInput(record.where, "has no reference", "add one, or leave out --reference")
        row["reference"] = record.get("reference")
    return row


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]

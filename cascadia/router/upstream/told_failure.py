"""Failures that an engine tells within a 200: vLLM and SGLang in an event of a stream, which has begun by then; some
APIs in place of a whole answer."""

import re
from typing import Any, NamedTuple

import orjson

from cascadia.router.upstream.errors import UpstreamError
from cascadia.router.upstream.said import MOST_BYTES

_ERROR = b'"error"'
_FAILED = re.compile(rb'"type"\s*:\s*"(?:response\.failed|error)"')
_FAILURES = ("response.failed", "error")
_OF_THE_CLIENT = ("invalid", "context_length", "4")
"""How codes of failed responses begin for which the request is to blame."""
_NO_DATA = (b":", b"event:", b"id:", b"retry:")
_EARLY = frozenset({"response.created", "response.queued", "response.in_progress"})
UNKNOWN = 500
"""Status of a failure that has none."""


class ToldFailure(UpstreamError):
    """`status` is that of HTTP by the engine's words, `body` the whole of what it told: JSON as of another status."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__("unreadable", f"an error of status {status} within a 200")
        self.status = status
        self.body = body

    @property
    def fresh(self) -> "ToldFailure":
        return ToldFailure(self.status, self.body)


def told_failure(data: bytes) -> ToldFailure | None:
    """The failure that a whole answer, or the data of one event, tells; None for any other."""
    if len(data) > MOST_BYTES or _ERROR not in data:
        return None
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    # An answer may have an empty `error` beside its choices; vLLM's older shape is `{"object": "error", ...}`.
    if not isinstance(found, dict) or "choices" in found:
        return None
    error = found.get("error") or (found if found.get("object") == "error" else None)
    if error is None:
        return None
    if found.get("object") == "response" and isinstance(error, dict):
        return _of_response(error)
    said = str(error.get("code")) if isinstance(error, dict) else ""
    status = int(said) if said.isdecimal() and len(said) == 3 else UNKNOWN
    return ToldFailure(status if 400 <= status < 600 else UNKNOWN, data)


class Beginning(NamedTuple):
    """How a stream begins: with a `failure`, or with words where that is None; not known as long as it is `open`."""

    failure: ToldFailure | None = None
    open: bool = False


def beginning_of(part: bytes) -> Beginning:
    """Beginning by what has come: events that say nothing yet, as of who will speak, are no beginning. More than
    `MOST_BYTES` is one."""
    start = part[:MOST_BYTES]
    for line in start.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        if not line.startswith(b"data:"):
            if line.startswith(_NO_DATA) or not line.strip():
                continue
            return Beginning()
        data = line[5:].strip()
        if not _says_nothing(data):
            return Beginning(failed_response(line) if _ERROR in data else None)
    return Beginning(open=len(part) < MOST_BYTES)


def _says_nothing(data: bytes) -> bool:
    if data == b"null":
        return True
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    if not isinstance(found, dict):
        return False
    choices = found.get("choices")
    if not isinstance(choices, list):
        return found.get("type") in _EARLY
    # Azure's first event has no choices: it tells what its filter made of the prompt.
    if not choices and found.get("usage"):
        return False
    return all(isinstance(choice, dict) and _is_empty(choice) for choice in choices)


def _is_empty(choice: dict[str, Any]) -> bool:
    said = choice.get("delta") or {}
    if choice.get("finish_reason") or choice.get("text") or not isinstance(said, dict):
        return False
    return not any(value for name, value in said.items() if name != "role")


def last_failure(tail: bytes) -> ToldFailure | None:
    """The failure that a stream ends with; `tail` is its end."""
    at = tail.rfind(b"data:", 0, max(0, tail.rfind(_ERROR)))
    return None if at < 0 else told_failure(tail[at + 5 :].partition(b"\n")[0].strip())


def failed_response(tail: bytes) -> ToldFailure | None:
    """The same of a stream of OpenAI's responses, which has events for it."""
    if _FAILED.search(tail) is None:
        return last_failure(tail)
    try:
        event = orjson.loads(tail[tail.rfind(b"data:") + 5 :])
        if event["type"] not in _FAILURES:
            # What its client wrote into it, e.g. metadata.
            return last_failure(tail)
        return _of_response(event["response"]["error"] if "response" in event else event)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        # Longer than its end, or without words.
        return ToldFailure(UNKNOWN, b"")


def _of_response(error: dict[str, Any]) -> ToldFailure:
    """Failure that a response of OpenAI's ended with."""
    code, message = str(error.get("code")), error.get("message")
    body = b"" if message is None else orjson.dumps({"error": {"message": message}})
    return ToldFailure(400 if code.startswith(_OF_THE_CLIENT) else UNKNOWN, body)

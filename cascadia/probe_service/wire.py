"""Parts of requests and answers that the front reads, and those that it adds.

A score stands in a document under `cascadia_probe`, and in a stream in a comment before its end, which clients pass
over: `: cascadia_probe {"score": 61.2}`.
"""

import time
from typing import Any, NamedTuple

import orjson

from cascadia.probe_service.scoring import Scored

MEMBER = "cascadia_probe"
SKIP_BELOW = "cascadia_skip_below"
"""Of a request: the least quality that must be expected for an answer to be begun."""
DONE = b"data: [DONE]"


class Tokens(NamedTuple):
    """Counts of prompt and answer, by the engine."""

    prompt: int
    written: int


def tokens_of(document: dict[str, Any]) -> Tokens | None:
    """Tokens that a document tells; None where the engine does not say."""
    timings = document.get("timings")
    if not isinstance(timings, dict):
        return None
    found = [timings.get(name) for name in ("cache_n", "prompt_n", "predicted_n")]
    if not all(isinstance(count, int) for count in found):
        return None
    cached, read, written = found
    return Tokens(int(cached or 0) + int(read or 0), int(written or 0))


def tokens_in_event(event: bytes) -> Tokens | None:
    if b'"timings"' not in event:
        return None
    for line in event.splitlines():
        if line.startswith(b"data: {"):
            try:
                return tokens_of(orjson.loads(line[6:]))
            except orjson.JSONDecodeError:
                return None
    return None


def comment(scored: Scored) -> bytes:
    return b": %s %s\n\n" % (MEMBER.encode(), orjson.dumps(scored.document()))


def not_begun(model: Any, prompt: int, chat: bool) -> dict[str, Any]:
    """An answer without a word, which gates take for worth nothing."""
    empty: dict[str, Any] = {"message": {"role": "assistant", "content": ""}} if chat else {"text": ""}
    return {
        "id": "cascadia-not-begun",
        "object": "chat.completion" if chat else "text_completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "finish_reason": "stop", **empty}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": 0, "total_tokens": prompt},
    }


def as_events(document: dict[str, Any]) -> bytes:
    """`document` as a stream of one chunk."""
    choices = []
    for choice in document["choices"]:
        message = choice.get("message")
        choices.append({**choice, "delta": message} if message is not None else choice)
        choices[-1].pop("message", None)
    chunk = document | {"choices": choices}
    if document["object"] == "chat.completion":
        chunk["object"] = "chat.completion.chunk"
    return b"data: %s\n\n%s\n\n" % (orjson.dumps(chunk), DONE)

"""Server-sent events of one streamed answer, with the moment at which each arrived.

While an answer streams only the bytes and the clock are kept; they are read afterwards, so that reading one
stream does not delay the clock of another.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

DONE = b"[DONE]"


@dataclass(frozen=True, slots=True)
class Streamed:
    """One answer, in seconds of the client's clock: when it was asked for and when each chunk of it came.

    `prompt_tokens` and `output_tokens` are the engine's own counts; None where it reports no usage. A chunk may
    hold several tokens.
    """

    sent_s: float
    chunks_s: tuple[float, ...]
    end_s: float
    prompt_tokens: int | None
    output_tokens: int | None

    @property
    def ttft_s(self) -> float:
        return self.chunks_s[0] - self.sent_s

    @property
    def e2e_s(self) -> float:
        """Seconds to the last token: what follows it (usage, end of stream) costs the client, not the reader."""
        return self.chunks_s[-1] - self.sent_s

    def tokens_by(self, moment_s: float) -> float:
        """Tokens that had come by then, each chunk taken to hold equally many."""
        came = sum(1 for at in self.chunks_s if at <= moment_s)
        return came * (self.output_tokens or len(self.chunks_s)) / len(self.chunks_s)


def timed_events(parts: Sequence[tuple[float, bytes]]) -> list[tuple[float, bytes]]:
    """The data of each event, with the time at which the last of its bytes came."""
    events = []
    rest = b""
    for moment, part in parts:
        *lines, rest = (rest + part).split(b"\n")
        events += [(moment, line[5:].strip()) for line in lines if line.startswith(b"data:")]
    if parts and rest.startswith(b"data:"):
        events.append((parts[-1][0], rest[5:].strip()))
    return events


def streamed(sent_s: float, parts: Sequence[tuple[float, bytes]]) -> Streamed | str:
    """The answer in these bytes; or, where it is an error or empty, what the engine says."""
    chunks: list[float] = []
    usage: dict[str, Any] = {}
    for moment, data in timed_events(parts):
        if data == DONE:
            continue
        try:
            event = json.loads(data)
        except ValueError:
            return f"an event that is not JSON: {data[:80]!r}"
        if not isinstance(event, dict) or "error" in event:
            return str(event.get("error") if isinstance(event, dict) else event)[:200]
        usage = event.get("usage") or usage
        if any(_carries_output(choice) for choice in event.get("choices") or ()):
            chunks.append(moment)
    if not chunks:
        return "a stream without any output"
    return Streamed(
        sent_s, tuple(chunks), parts[-1][0], usage.get("prompt_tokens"), usage.get("completion_tokens")
    )


def _carries_output(choice: dict[str, Any]) -> bool:
    """Text of any kind; or nothing but an end: an empty token is a token, the announcement of a role is none."""
    delta = choice.get("delta")
    if delta is None:
        return bool(choice.get("text")) or (choice.get("finish_reason") is None and "text" in choice)
    return any(delta.get(key) for key in ("content", "reasoning_content", "reasoning", "tool_calls"))

"""How a stream of OpenAI's responses ends: with its last event, with a failure, or not at all."""

import asyncio
import json
from typing import Any

import pytest

from cascadia.testing.engines import FakeEngine, begin_stream, send, started
from cascadia.testing.routers import run, running, stages

MADE = {"id": "r", "object": "response", "status": "in_progress", "error": None, "output": []}
DIED = {"code": "server_error", "message": "EngineCore died"}
SAID = {"type": "response.output_text.delta", "delta": 'then "type": "response.completed", data: {"error"'}
DONE = MADE | {"status": "completed", "usage": {"input_tokens": 5, "output_tokens": 2}}
ENDS: dict[str, tuple[dict[str, Any] | None, str | None, bool]] = {
    "its end": ({"type": "response.completed", "response": DONE}, None, True),
    "its end, type last": ({"response": DONE, "type": "response.completed"}, None, True),
    "cut short, and said so": ({"type": "response.incomplete", "response": DONE}, None, True),
    "nothing": (None, "unreadable", False),
    "a failure": ({"type": "response.failed", "response": MADE | {"error": DIED}}, "status", False),
    "a long failure": (
        {"type": "response.failed", "response": MADE | {"error": DIED, "instructions": "x" * 9000}}, "status", False,
    ),
    "an error": ({"type": "error"} | DIED, "status", False),
    "an error of no type": ({"error": DIED}, "status", False),
    "a refusal": ({"type": "error", "code": "invalid_prompt", "message": "no"}, None, True),
}  # fmt: skip


@pytest.mark.parametrize("model", ["small", "cascadia"])
@pytest.mark.parametrize("how", ENDS)
def test_a_stream_is_whole_failed_or_broken_off(how: str, model: str) -> None:
    last, error, well = ENDS[how]

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if not body.get("stream"):
            send(writer, 500, b"{}")
            return
        begin_stream(writer)
        for event in ({"type": "response.created", "response": MADE}, SAID, last):
            if event is not None:
                line = f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n".encode()
                writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        writer.write(b"0\r\n\r\n")

    async def main() -> None:
        engine = FakeEngine(answer=answer)
        async with started(engine), running(stages(engine), breaker_failures=1, breaker_first_s=600) as up:
            asked = {"model": model, "input": "q", "stream": True}
            found = await up.client.post("/v1/responses", json=asked)
            assert json.dumps(SAID) in found.text
            # The engine's own last event comes once, and nothing of ours behind it.
            events = [json.loads(line[6:]) for line in found.text.splitlines() if line.startswith("data: ")]
            assert len(events) == 3
            assert last is None or {**events[2], "cascadia": 0} == {**last, "cascadia": 0}
            assert up.router.stages[0].ready == well
        assert up.lines[0].get("error") == error

    run(main)

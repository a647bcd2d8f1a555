"""An answer that clients can read is none the worse for what only we look at: each is judged, counted and passed on."""

import asyncio
import json
from typing import Any

import pytest

from cascadia.testing.engines import FakeEngine, begin_stream, event, send, started
from cascadia.testing.routers import ScriptedGate, run, running, stages

USAGE = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
PARTS = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "fine"}]
TOOLS = [{"type": "function", "function": {"name": "f"}}]
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def whole(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": USAGE} | more


def delta(told: dict[str, Any], index: int | None = 0) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": told}]}


ODD: dict[str, list[dict[str, Any]]] = {
    "Mistral's content in parts": [whole({"content": PARTS})],
    "tokens as 12.0": [whole({"content": "fine"}, usage={"prompt_tokens": 10.0, "completion_tokens": 3.0})],
    "arguments as an object": [
        whole({"tool_calls": [CALL | {"function": {"name": "f", "arguments": {"x": 1}}}]})
    ],
    "parts in a stream": [delta({"content": PARTS}), {"choices": [], "usage": USAGE}],
    "no choices beside the usage": [delta({"content": "fine"}), {"choices": None, "usage": USAGE}],
    "no index of a choice": [delta({"content": "fine"}, None), {"choices": [], "usage": USAGE}],
    "no index of calls": [
        delta({"tool_calls": 2 * [CALL | {"index": None}]}),
        {"choices": [], "usage": USAGE},
    ],
}


@pytest.mark.parametrize("model", ["small", "cascadia"])
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_answer_is_one(odd: str, model: str) -> None:
    documents = ODD[odd]
    stream = "choices" in documents[0] and "delta" in documents[0]["choices"][0]

    async def says(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if not stream:
            send(writer, 200, json.dumps(documents[0]).encode())
            return
        begin_stream(writer)
        for document in (*documents, "[DONE]"):
            event(writer, document)
        writer.write(b"0\r\n\r\n")

    async def main() -> None:
        engines = FakeEngine(answer=says), FakeEngine("strong")
        gate = ScriptedGate({"fine": 90.0, "": 90.0})
        async with started(*engines), running(stages(*engines, thresholds=(50,)), gate) as up:
            answer = await up.chat(model, stream=stream, tools=TOOLS)
            assert answer.status_code == 200
            assert answer.headers["x-cascadia-stage"] == "small"
        assert up.lines[0]["tokens"] == {"small": 13}
        assert up.lines[0]["written"] == {"small": 3}

    run(main)


@pytest.mark.parametrize("model", ["small", "cascadia"])
def test_capitals_of_a_content_type_mean_nothing(model: str) -> None:
    async def says(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 200, json.dumps(whole({"content": "fine"})).encode(), "Application/JSON; Charset=UTF-8")

    async def main() -> None:
        engines = FakeEngine(answer=says), FakeEngine("strong")
        async with started(*engines), running(stages(*engines)) as up:
            answer = await up.chat(model)
        assert (answer.status_code, answer.headers["x-cascadia-stage"]) == (200, "small")

    run(main)

"""OpenAI's responses through the cascade."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from cascadia.router.access.keys import Keyring
from cascadia.router.settings.model import KeySettings, RouterSettings
from cascadia.testing.engines import Answer, FakeEngine, begin_stream, send, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages, until
from tests.unit.router.access.test_keys import made


def response(text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    usage = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}
    output = [{"type": "reasoning", "id": "r", "summary": []}, message]
    return {"id": "r-1", "object": "response", "status": "completed", "output": output, "usage": usage} | more


def says(text: str, **more: Any) -> Answer:
    """As JSON or as a stream, whichever is asked for."""

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if not body.get("stream"):
            send(writer, 200, json.dumps(response(text, **more)).encode())
            return
        begin_stream(writer)
        created = {"type": "response.created", "response": response("", status="in_progress", output=[])}
        changed = [{"type": "response.output_text.delta", "delta": letter} for letter in text]
        last = {"type": "response.completed", "response": response(text, **more)}
        for data in (created, *changed, last):
            line = f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()
            writer.write(b"%x\r\n%s\r\n" % (len(line), line))
        writer.write(b"0\r\n\r\n")

    return answer


def events(content: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in content.splitlines() if line.startswith("data: ")]


async def ask(up: Any, **more: Any) -> Any:
    return await up.client.post("/v1/responses", json={"model": "cascadia", "input": "What is 2+2?"} | more)


def test_a_response_is_scored_and_goes_on_like_any_other_answer() -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=says("five")), FakeEngine(answer=says("4"))
        async with started(small, large):
            gate = ScriptedGate({"five": 20.0})
            async with running(stages(small, large, thresholds=(50,)), gate) as up:
                answer = await ask(up)
                gate.scores["five"] = 80.0
                accepted = await ask(up, instructions="Be brief.")
        assert answer.headers["x-cascadia-stage"] == "large"
        assert answer.json()["output"][1]["content"][0]["text"] == "4"
        assert answer.json()["usage"]["total_tokens"] == 13
        assert answer.json()["cascadia"]["usage"]["total_tokens"] == 26
        assert accepted.json()["cascadia"]["score"] == 80.0
        assert gate.seen == [("What is 2+2?", "five"), ("system: Be brief.\nuser: What is 2+2?", "five")]
        assert "/v1/responses" in small.heads[0]

    run(main)


def test_a_held_response_is_released_whole_and_the_last_stages_is_live() -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=says("five")), FakeEngine(answer=says("4"))
        async with started(small, large):
            gate = ScriptedGate({"five": 80.0})
            async with running(stages(small, large, thresholds=(50,)), gate) as up:
                held = await ask(up, stream=True)
                gate.scores["five"] = 20.0
                live = await ask(up, stream=True)
        for answer, text, total in ((held, "five", 13), (live, "4", 26)):
            seen = events(answer.text)
            assert "".join(event.get("delta", "") for event in seen) == text
            assert seen[-1]["type"] == "response.completed"
            assert seen[-1]["cascadia"]["usage"]["total_tokens"] == total
            assert next(line for line in answer.text.splitlines() if line.startswith("event:")).endswith(
                "created"
            )
        assert "stream_options" not in small.requests[0]
        assert held.headers["x-cascadia-score"] == "80.00"
        assert live.headers["x-cascadia-stage"] == "large"

    run(main)


@pytest.mark.parametrize("text", ["4", "four " * 20_000])
def test_a_response_straight_from_a_stage_is_counted_as_its_engine_does_streamed_or_not(text: str) -> None:
    async def main() -> None:
        key, auth = made()
        small = FakeEngine(answer=says(text, metadata={"what": "x" * 5000}))
        async with started(small), running(_priced(small), keyring=Keyring([key])) as up:
            counted = []
            for stream in (False, True):
                before = generate_latest(up.router.metrics.registry)
                asked = {"model": "small", "input": "What is 2+2?", "stream": stream}
                answer = await up.client.post("/v1/responses", json=asked, headers=auth)
                assert answer.status_code == 200
                await until(lambda: len(up.lines) > len(counted))
                line = up.lines[-1]
                after = generate_latest(up.router.metrics.registry)
                counted.append((line["tokens"], line["written"], *_grown(before, after)))
        assert counted[0] == ({"small": 13}, {"small": 3}, 10.0, 3.0, 13.0, 0.016)
        assert counted[1] == counted[0]

    run(main)


def _priced(small: FakeEngine) -> RouterSettings:
    (stage,) = stages(small)
    of = (replace(stage, price=(1000.0, 2000.0)),)
    return RouterSettings(of, None, health=QUICK, keys=KeySettings(Path("keys.json")))


def _grown(before: bytes, after: bytes) -> Iterator[float]:
    for name in (
        'cascadia_stage_tokens_total{direction="input",stage="small"}',
        'cascadia_stage_tokens_total{direction="output",stage="small"}',
        'cascadia_key_tokens_total{key="team-a"}',
        'cascadia_key_usd_total{key="team-a",stage="small"}',
    ):
        then, now = (
            next(
                (float(line.split()[-1]) for line in told.decode().splitlines() if line.startswith(name)), 0.0
            )
            for told in (before, after)
        )
        yield round(now - then, 9)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("previous_response_id", "resp_1"),
        ("conversation", "conv_1"),
        ("prompt", {"id": "pmpt_1"}),
        ("background", True),
        ("input", [{"type": "item_reference", "id": "item_1"}]),
    ],
)
def test_what_refers_to_something_that_one_engine_keeps_goes_straight_only(member: str, value: Any) -> None:
    async def main() -> None:
        small = FakeEngine(answer=says("a"))
        async with started(small), running(stages(small)) as up:
            refused = await ask(up, **{member: value})
            straight = await ask(up, **{"model": "small", member: value})
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "not_cascaded"
        assert refused.json()["error"]["param"] == member
        assert straight.status_code == 200

    run(main)


def test_members_that_are_null_refer_to_nothing() -> None:
    async def main() -> None:
        small = FakeEngine(answer=says("a"))
        async with started(small), running(stages(small)) as up:
            answer = await ask(up, previous_response_id=None, conversation=None, background=False)
        assert answer.status_code == 200

    run(main)


def test_tools_and_forms_of_a_response_have_the_rules_of_chat() -> None:
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "add", "arguments": '{"x": 1}'}
    tools = [{"type": "function", "name": "add", "parameters": {}}, {"type": "web_search"}]
    form = {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object", "required": ["a"]}}}

    async def main() -> None:
        small, large = FakeEngine(), FakeEngine(answer=says("b"))
        async with started(small, large):
            gate = ScriptedGate({"": 90.0, '{"a": 1}': 90.0, "plain": 90.0})
            async with running(stages(small, large, thresholds=(50,)), gate) as up:
                for said, more, request, stage in [
                    ("", {"output": [call]}, {"tools": tools}, "small"),
                    ("", {"output": [call | {"name": "rm"}]}, {"tools": tools}, "large"),
                    ("", {"output": [call | {"arguments": "{"}]}, {"tools": tools}, "large"),
                    ("", {"output": []}, {}, "large"),
                    ('{"a": 1}', {}, {"text": form}, "small"),
                    ('{"b": 1}', {}, {"text": form}, "large"),
                    ("plain", {}, {"text": {"format": {"type": "json_object"}}}, "large"),
                    ("plain", {"status": "failed"}, {}, "large"),
                    ("plain", {"status": "incomplete"}, {}, "small"),
                ]:
                    small.answer = says(said, **more)
                    answer = await ask(up, **request)
                    assert answer.headers["x-cascadia-stage"] == stage, (said, more)

    run(main)


@pytest.mark.parametrize("end", ["cut", "failed", "none"])
def test_a_held_response_that_does_not_end_well_is_a_failure_of_its_stage(end: str) -> None:
    async def bad(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        kind = {"cut": "response.output_text.delta", "failed": "response.failed", "none": "response.created"}
        line = f"data: {json.dumps({'type': kind[end]})}\n\n".encode()
        writer.write(b"%x\r\n%s\r\n" % (len(line), line))
        if end == "cut":
            await writer.drain()
            writer.close()
        else:
            writer.write(b"0\r\n\r\n")

    async def main() -> None:
        small, large = FakeEngine(answer=bad), FakeEngine(answer=says("4"))
        async with started(small, large):
            settings = stages(small, large, thresholds=(50,))
            async with running(settings, ScriptedGate({})) as up:
                answer = await ask(up, stream=True)
                straight = await ask(up, model="small", stream=True)
        assert answer.headers["x-cascadia-stage"] == "large"
        assert events(answer.text)[-1]["type"] == "response.completed"
        if end == "none":
            assert straight.status_code == 502, "nothing was said: a status says it"
            return
        last = events(straight.text)[-1]
        assert last.get("type") == "response.failed" if end == "failed" else "error" in last

    run(main)


def test_a_conversation_of_items_is_written_out_for_the_judge() -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Add."}, {"type": "input_image"}]},
        {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "4"},
    ]

    async def main() -> None:
        small, large = FakeEngine(answer=says("yes")), FakeEngine(answer=says("no"))
        async with started(small, large):
            gate = ScriptedGate({"yes": 90.0})
            async with running(stages(small, large, thresholds=(50,)), gate) as up:
                assert (await ask(up, input=items)).headers["x-cascadia-stage"] == "small"
        assert gate.seen[0][0] == "user: Add.\n[input_image]\nassistant: [calls add with {}]\ntool: 4"

    run(main)

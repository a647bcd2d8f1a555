"""Requests that an engine cannot serve and others could: they say nothing of the engine, and a cascade goes on."""

import asyncio
import json
from typing import Any

import pytest

from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import ScriptedGate, run, running, stages

PICTURE = [
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iV"}}]}
]
NO_PICTURES = json.dumps({"error": {"message": "image input is not supported"}}).encode()


def text_only(status: int) -> Any:
    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if "image_url" in json.dumps(body):
            send(writer, status, NO_PICTURES)
        else:
            send(writer, 200, completion(engine.text))

    return answer


@pytest.mark.parametrize("status", [400, 500, 501])
def test_pictures_go_on_to_a_stage_that_reads_them_and_close_no_replica(status: int) -> None:
    async def main() -> None:
        small, large = FakeEngine("words", answer=text_only(status)), FakeEngine("a cat")
        gate = ScriptedGate({"words": 90.0})
        async with (
            started(small, large),
            running(stages(small, large, thresholds=(50,)), gate, breaker_failures=2) as up,
        ):
            seen = [await up.chat(messages=PICTURE) for _ in range(4)]
            direct = [await up.chat("small", messages=PICTURE) for _ in range(4)]
            words = await up.chat("small")
        assert [answer.headers["x-cascadia-stage"] for answer in seen] == ["large"] * 4
        assert words.status_code == 200, "the engine does well with words"
        assert {answer.status_code for answer in direct} == {502 if status == 500 else status}

    run(main)


def test_the_last_stages_refusal_of_a_picture_is_the_clients() -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=text_only(400)), FakeEngine(answer=text_only(400))
        gate = ScriptedGate({})
        async with started(small, large), running(stages(small, large, thresholds=(50,)), gate) as up:
            answer = await up.chat(messages=PICTURE)
        assert answer.status_code == 400
        assert answer.content == NO_PICTURES

    run(main)


def test_a_page_that_knows_no_post_is_no_engines_refusal() -> None:
    """As of a program that took a replica's port: another replica answers, and the breaker opens."""

    async def page(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 501, b"<!DOCTYPE HTML><p>Message: Unsupported method ('POST').")

    async def main() -> None:
        taken, other = FakeEngine(answer=page), FakeEngine("words")
        async with (
            started(taken, other),
            running(stages([taken, other]), ScriptedGate({"words": 90.0}), breaker_failures=2) as up,
        ):
            seen = [await up.chat("small") for _ in range(12)]
            asked = len(taken.requests)
        assert {answer.status_code for answer in seen} == {200}
        assert 1 <= asked <= 2

    run(main)


def test_failures_at_words_still_open_the_breaker() -> None:
    async def fails(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 500, b"{}")

    async def main() -> None:
        small = FakeEngine(answer=fails)
        async with started(small), running(stages(small), breaker_failures=2, max_tries=1) as up:
            codes = [(await up.chat("small")).status_code for _ in range(4)]
        assert codes == [502, 502, 503, 503]

    run(main)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "words", ["Failed to parse tools: Missing tool type: {}", "Failed to parse messages: x"]
)
def test_a_request_that_llama_cpp_cannot_read_is_its_clients_mistake(words: str, stream: bool) -> None:
    """It says so with a 500; anyone could close a stage to everybody with a few of them."""
    said = json.dumps({"error": {"code": 500, "message": words, "type": "server_error"}}).encode()

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if body.get("tools"):
            send(writer, 500, said)
        else:
            send(writer, 200, completion(engine.text))

    async def main() -> None:
        small, large = FakeEngine("words", answer=answer), FakeEngine("4", answer=answer)
        gate = ScriptedGate({"words": 90.0})
        async with (
            started(small, large),
            running(stages(small, large, thresholds=(50,)), gate, breaker_failures=2) as up,
        ):
            odd = [
                await up.chat(model, tools=[{}], stream=stream)
                for model in ("cascadia", "small")
                for _ in "abc"
            ]
            asked = len(small.requests), len(large.requests)
            words = await up.chat("small")
        assert [(found.status_code, found.content) for found in odd] == [(400, said)] * 6
        assert asked == (6, 0), "another try or stage would say the same"
        assert words.status_code == 200

    run(main)

"""Live streams are counted as their engines tell it, in whichever event, and end where their engines end them."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from cascadia.router.openai.bounded import LONG_BYTES
from cascadia.router.openai.stream_usage import ToldUsage
from cascadia.testing.engines import Answer, FakeEngine, begin_stream, delta, event, send, started, stream
from cascadia.testing.routers import ScriptedGate, run, running, stages

USAGE = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
TOLD = {"choices": [], "usage": USAGE}
WORDS = [delta(text) for text in ("one ", "two ", "six ")]
LONG = delta("long " * 2000)
ONE_OF_EIGHT = {"choices": [], "usage": USAGE, "timings": {"predicted_n": 3, "told": "x" * 400}}


def streamed(*events: dict[str, Any] | str, space: str = " ") -> Answer:
    """An engine's stream of these events, whatever it was asked."""

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        for each in events:
            line = f"data:{space}{each if isinstance(each, str) else json.dumps(each)}\n\n".encode()
            writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        writer.write(b"0\r\n\r\n")

    return answer


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        (streamed(*WORDS, TOLD, "[DONE]", space=""), 13),
        (streamed(*WORDS, TOLD, {"choices": [], "usage": None}, "[DONE]"), 13),
        (streamed(*WORDS[:2], WORDS[2] | {"usage": USAGE}, {"choices": [], "usage": None}, "[DONE]"), 13),
        (streamed(WORDS[0], TOLD, LONG, "[DONE]"), 13),
        (streamed(*WORDS, *[ONE_OF_EIGHT] * 8, "[DONE]"), 8 * 13),
        (streamed(*WORDS, *[TOLD] * 40, "[DONE]"), 13),
    ],
    ids=["no space", "null behind", "null behind its last words", "long behind", "each of eight", "forty"],
)
@pytest.mark.parametrize("model", ["small", "cascadia"])
@pytest.mark.parametrize("asked", [False, True])
def test_a_live_stream_is_counted_wherever_its_engine_tells_it(
    answer: Answer, tokens: int, model: str, *, asked: bool
) -> None:
    async def main() -> None:
        engine = FakeEngine(answer=answer)
        async with started(engine), running(stages(engine)) as up:
            got = await up.chat(model, stream=True, stream_options={"include_usage": asked})
            counted = up.router.stages[0].metrics
        (line,) = up.lines
        assert sum(line["tokens"].values()) == tokens
        assert counted.input_tokens.value + counted.output_tokens.value == tokens
        alone = [part for part in got.text.split("\n\n") if '"choices": [], "usage": {' in part]
        assert bool(alone) <= asked

    run(main)


def test_an_engine_that_says_that_it_counted_nothing_is_estimated() -> None:
    async def main() -> None:
        engine = FakeEngine(answer=streamed(*WORDS, {"choices": [], "usage": {}}, "[DONE]"))
        async with started(engine), running(stages(engine)) as up:
            await up.chat("small", stream=True)
        (line,) = up.lines
        assert line["written"]["small"] >= len(WORDS)

    run(main)


@pytest.mark.parametrize("text", ["[DONE]", "data: [DONE]", "\ndata: [DONE]\n\n"])
def test_a_stream_that_speaks_of_an_end_and_breaks_off_has_not_ended(text: str) -> None:
    async def main() -> None:
        engine = FakeEngine(answer=streamed(WORDS[0], delta(text)))
        async with started(engine), running(stages(engine)) as up:
            got = await up.chat("small", stream=True)
        (line,) = up.lines
        assert line["error"] == "unreadable"
        assert '"error"' in got.text.rpartition("data: ")[2]

    run(main)


@pytest.mark.parametrize("kind", ["error", "response.failed", "response.completed"])
@pytest.mark.parametrize("ends", [True, False])
def test_a_client_s_words_are_no_end_of_its_response(kind: str, *, ends: bool) -> None:
    """Engines write a request's metadata into each event that has the response."""

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        response = {"error": None, "output": [], "metadata": body["metadata"]}
        begin_stream(writer)
        event(writer, {"type": "response.created", "response": response})
        event(writer, {"type": "response.output_text.delta", "delta": "four"})
        if ends:
            usage = {"input_tokens": 10, "output_tokens": 3}
            event(writer, {"response": response | {"usage": usage}, "type": "response.completed"})
        writer.write(b"0\r\n\r\n")

    async def main() -> None:
        engine = FakeEngine(answer=answer)
        async with started(engine), running(stages(engine)) as up:
            for model in ("small", "cascadia"):
                body = {"model": model, "input": "2+2?", "stream": True, "metadata": {"type": kind}}
                await up.client.post("/v1/responses", json=body)
            assert up.router.stages[0].replicas[0].breaker.failures == (0 if ends else 2)
        assert [line.get("error") for line in up.lines] == [None if ends else "unreadable"] * 2
        assert not ends or [line["tokens"]["small"] for line in up.lines] == [13, 13]

    run(main)


def lines_of(count: int) -> bytes:
    return b'data: {"usage": {"prompt_tokens": 1}}\n' * count


@pytest.mark.parametrize(
    "made",
    [
        lambda: b"data: " + b'"usage":1' * 200_000 + b"\n",
        lambda: b'"usage":1\n' * 20_000,
        lambda: lines_of(2000),
    ],
)
def test_what_speaks_of_usage_again_and_again_is_read_once(made: Callable[[], bytes]) -> None:
    """Each line is looked at once, however often it speaks of it: ended by itself, or it would be for ever."""
    told = ToldUsage()
    told.seen(made())
    told.seen(b'data: {"usage": {"prompt_tokens": 7}, "x": "' + b"y" * LONG_BYTES + b'"}\n')
    assert told.usage in (None, (1, 0))


async def without_options(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """An API that knows no `stream_options`."""
    if "stream_options" in body:
        send(writer, 422, b'{"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"]}]}')
    else:
        stream(writer, engine.text, body)


@pytest.mark.parametrize("model", ["small", "large", "cascadia"])
def test_an_engine_that_refuses_to_tell_its_usage_streams_without(model: str) -> None:
    async def main() -> None:
        engines = FakeEngine("weak", answer=without_options), FakeEngine("strong", answer=without_options)
        gate = ScriptedGate({"weak": 10.0})
        async with started(*engines), running(stages(*engines, thresholds=(50,)), gate) as up:
            for _ in range(2):
                assert (await up.chat(model, stream=True)).text.endswith("data: [DONE]\n\n")
            # Who asks for it is told that it is not to be had.
            asked = await up.chat(model, stream=True, stream_options={"include_usage": True})
        assert asked.status_code == 422
        # It is found out once.
        assert next(len(engine.requests) for engine in engines if engine.requests) == 4

    run(main)

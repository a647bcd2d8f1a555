"""An engine that says within a 200 that it failed is taken at its word: vLLM and SGLang in an event of a stream."""

import asyncio
import json
from typing import Any

import pytest

from cascadia.router.settings.model import RouterSettings
from cascadia.router.upstream.told_failure import beginning_of, last_failure, told_failure
from cascadia.testing.engines import Answer, FakeEngine, begin_stream, delta, event, send, started
from cascadia.testing.routers import QUICK, Running, ScriptedGate, run, running, stages

DIED = {"message": "EngineCore died", "type": "InternalServerError", "param": None, "code": 500}
LONG = {"object": "error", "message": "maximum context length is 5", "type": "BadRequestError", "code": 400}

EARLY: list[Any] = [
    None,
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
    {
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}],
        "usage": {"prompt_tokens": 5},
    },
    {"choices": [], "prompt_filter_results": [{}]},
    {"type": "response.created", "response": {"error": None, "output": []}},
    {"type": "response.in_progress", "response": {"error": None, "output": []}},
]
"""Events with which streams begin, and say nothing yet: of vLLM, llama.cpp, Azure and OpenAI."""
SAYING: list[Any] = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "4"}}]},
    {"choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_content": "so"}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0}]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [{"index": 0, "text": "4"}]},
    {"choices": [], "usage": {"prompt_tokens": 5}},
    {"type": "response.output_text.delta", "delta": "4"},
]


def ends(error: dict[str, Any], *before: str) -> Answer:
    """An engine whose stream ends with the error; a whole answer of it is the error, with status 200 too."""

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if not body.get("stream"):
            send(writer, 200, json.dumps({"error": error}).encode())
            return
        begin_stream(writer)
        for text in before:
            event(writer, delta(text))
        event(writer, {"error": error})
        event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")

    return answer


REFUSED = {"message": "no such thing", "type": "invalid_request_error", "code": 400}
FAILED = {"code": "invalid_prompt", "message": "no such thing"}


QUESTIONS: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": [{"role": "user", "content": "q"}]},
    "completions": {"prompt": "q"},
    "responses": {"input": "q"},
}


async def whole(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """A refusal in one piece, whether a stream was asked for or not."""
    send(writer, 200, json.dumps({"error": REFUSED}).encode())


async def as_asked(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    if not body.get("stream"):
        await whole(engine, body, writer)
        return
    begin_stream(writer)
    event(writer, {"error": REFUSED})
    event(writer, "[DONE]")
    writer.write(b"0\r\n\r\n")


async def failed(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """A response that failed over what its client had asked for."""
    document = {"id": "r", "object": "response", "status": "failed", "error": FAILED, "output": []}
    if not body.get("stream"):
        send(writer, 200, json.dumps(document).encode())
        return
    begin_stream(writer)
    event(writer, {"type": "response.created", "response": {"error": None, "output": []}})
    event(writer, {"type": "response.failed", "response": document})
    writer.write(b"0\r\n\r\n")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["chat/completions", "completions", "responses"])
@pytest.mark.parametrize(
    ("model", "bar"),
    [("small", 0.0), ("cascadia", 0.0), ("cascadia", 50.0)],
    ids=["straight", "live", "held"],
)
@pytest.mark.parametrize("told", [whole, as_asked, failed])
def test_a_refusal_within_a_200_is_the_clients_in_every_form(
    told: Answer, model: str, bar: float, path: str, stream: bool
) -> None:
    if told is failed and path != "responses":
        return

    async def main() -> None:
        engine, larger = FakeEngine(answer=told), FakeEngine("an answer")
        async with started(engine, larger):
            settings = stages(engine, larger, thresholds=(bar,)) if bar else stages(engine)
            async with running(settings, ScriptedGate({})) as up:
                asked = {"model": model, "stream": stream} | QUESTIONS[path]
                answer = await up.client.post("/v1/" + path, json=asked)
                failures = up.router.stages[0].replicas[0].breaker.failures
        assert answer.status_code == 400
        assert answer.json()["error"]["message"] == "no such thing"
        assert (failures, larger.requests) == (0, [])

    run(main)


def outcomes(up: Running) -> list[tuple[Any, ...]]:
    up.router.journal.flush()
    return [
        (
            line["status"],
            line.get("error"),
            *((step["stage"], step["outcome"]) for step in line.get("steps", ())),
        )
        for line in up.lines
    ]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["large", "cascadia"])
def test_before_its_first_word_another_replica_answers_and_the_broken_one_is_left(
    model: str, stream: bool
) -> None:
    async def main() -> None:
        small, broken, good = FakeEngine("weak"), FakeEngine(answer=ends(DIED)), FakeEngine("strong")
        async with started(small, broken, good):
            told = RouterSettings(stages(small, [broken, good], thresholds=(50,)), None, health=QUICK)
            async with running(
                told, ScriptedGate({"weak": 10.0}), breaker_failures=3, breaker_first_s=600
            ) as up:
                for _ in range(12):
                    answer = await up.chat(model, stream=stream)
                    assert answer.status_code == 200
                    assert "EngineCore" not in answer.text
        assert len(broken.requests) == 3
        assert len(good.requests) == 12

    run(main)


@pytest.mark.parametrize("stream", [False, True])
def test_where_all_replicas_tell_one_the_client_gets_a_status_and_their_words(stream: bool) -> None:
    async def main() -> None:
        engine = FakeEngine(answer=ends(DIED))
        async with started(engine), running(stages(engine)) as up:
            for model in ("small", "cascadia"):
                answer = await up.chat(model, stream=stream)
                assert answer.status_code == 502
                assert answer.json()["error"]["message"].endswith(
                    "Its engine answered HTTP 500: EngineCore died"
                )

    run(main)


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_within_a_200_is_one(stream: bool) -> None:
    """Nobody tries it again, and no breaker opens; of a prompt that is too long the next stage may know more."""

    async def main() -> None:
        small, large = FakeEngine(answer=ends(LONG)), FakeEngine("strong")
        async with (
            started(small, large),
            running(stages(small, large, thresholds=(50,)), ScriptedGate({}), breaker_failures=1) as up,
        ):
            straight = await up.chat("small", stream=stream)
            assert straight.status_code == 400
            assert straight.json()["error"] == LONG
            passed_on = await up.chat(stream=stream)
            assert passed_on.status_code == 200
            assert passed_on.headers["x-cascadia-stage"] == "large"
        assert len(small.requests) == 2
        assert outcomes(up) == [(400, None), (200, None, ("small", "context"), ("large", "accepted"))]

    run(main)


def test_in_mid_stream_the_client_has_it_once_and_it_counts_as_a_failure() -> None:
    async def main() -> None:
        small, large = FakeEngine("weak"), FakeEngine(answer=ends(DIED, "half"))
        limits = {"breaker_failures": 2, "breaker_first_s": 600}
        async with (
            started(small, large),
            running(stages(small, large, thresholds=(50,)), ScriptedGate({"weak": 10.0}), **limits) as up,
        ):
            for model in ("large", "cascadia"):
                answer = await up.chat(model, stream=True)
                assert answer.text.count('"error"') == 1
                assert answer.text.endswith("data: [DONE]\n\n")
            assert [stage.ready for stage in up.router.stages] == [True, False]
        assert outcomes(up)[:2] == [
            (200, "status"),
            (200, "status", ("small", "score"), ("large", "status")),
        ]
        assert up.lines[0]["said"] == "HTTP 500: EngineCore died"

    run(main)


def test_a_refusal_in_mid_stream_says_nothing_of_the_engine() -> None:
    async def main() -> None:
        engine = FakeEngine(answer=ends(LONG, "half"))
        async with started(engine), running(stages(engine), breaker_failures=1, breaker_first_s=600) as up:
            for _ in range(3):
                assert '"error"' in (await up.chat("small", stream=True)).text
        assert outcomes(up) == [(200, None)] * 3

    run(main)


@pytest.mark.parametrize(
    ("document", "status"),
    [
        ({"error": DIED}, 500),
        ({"error": LONG}, 400),
        ({"error": {"message": "no", "code": "429"}}, 429),
        ({"error": {"message": "no", "code": "server_error"}}, 500),
        ({"error": {"message": "no", "code": 200}}, 500),
        ({"error": "no"}, 500),
        (LONG, 400),
        ({"error": None, "choices": []}, None),
        ({"error": {}, "choices": [{"index": 0}]}, None),
        ({"object": "list", "data": [{"label": "error"}]}, None),
        ({"choices": [{"delta": {"content": '{"error": 1}'}}]}, None),
        ({"id": "error"}, None),
    ],
)
def test_what_is_a_failure(document: dict[str, Any], status: int | None) -> None:
    data = json.dumps(document).encode()
    found = told_failure(data)
    assert (None if found is None else found.status) == status
    line = b"data: " + data + b"\n\n"
    for found in (
        beginning_of(b": comment\n\n" + line).failure,
        last_failure(b"data: {}\n\n" + line + b"data: [DONE]\n\n"),
    ):
        assert (None if found is None else found.status) == status
    assert beginning_of(line.rstrip()) == (None, True)
    assert beginning_of(b"data: {}\n\n" + line) == (None, False)
    for early in EARLY:
        found = beginning_of(b"data: " + json.dumps(early).encode() + b"\n\n" + line).failure
        assert (None if found is None else found.status) == status


@pytest.mark.parametrize("document", SAYING)
def test_what_has_said_something_is_passed_on(document: dict[str, Any]) -> None:
    line = b"data: " + json.dumps(document).encode() + b"\n\n"
    assert beginning_of(line + b'data: {"error": {"message": "no"}}\n\n') == (None, False)


def test_a_beginning_is_waited_for_no_longer_than_it_may_be() -> None:
    early = b"data: " + json.dumps(EARLY[1]).encode() + b"\n\n"
    assert beginning_of(early).open
    assert beginning_of(early + b'data: {"err').open
    assert not beginning_of(early * 1000).open
    assert not beginning_of(b"data: " + b"x" * 20_000).open


@pytest.mark.long(in_ci=12)
@pytest.mark.parametrize("end", ["error", "cut", "silent"])
@pytest.mark.parametrize("early", EARLY)
@pytest.mark.parametrize("model", ["large", "cascadia"])
def test_what_breaks_before_its_first_word_is_answered_by_another(model: str, early: Any, end: str) -> None:
    """vLLM names the speaker in an event of its own: until a word follows, nothing was sent on."""

    async def breaks(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        event(writer, json.dumps(early))
        await writer.drain()
        # In a part of its own.
        await asyncio.sleep(0.01)
        if end == "error":
            event(writer, {"error": DIED})
            event(writer, "[DONE]")
        writer.write(b"" if end == "cut" else b"0\r\n\r\n")
        if end == "cut":
            writer.close()

    async def main() -> None:
        small, broken, good = FakeEngine("weak"), FakeEngine(answer=breaks), FakeEngine("strong")
        async with started(small, broken, good):
            told = RouterSettings(stages(small, [broken, good], thresholds=(50,)), None, health=QUICK)
            async with running(told, ScriptedGate({"weak": 10.0}), breaker_failures=1) as up:
                answers = [await up.chat(model, stream=True) for _ in range(3)]
        for answer in answers:
            words = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
            assert "".join(each["choices"][0]["delta"]["content"] for each in words) == "strong"
            assert answer.text.endswith("data: [DONE]\n\n")
        assert len(broken.requests) == 1, "and is left alone from then on"

    run(main)


def test_where_none_says_a_word_the_next_stage_or_the_client_is_told() -> None:
    async def breaks(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        event(writer, EARLY[1])
        await writer.drain()
        await asyncio.sleep(0.01)
        event(writer, {"error": LONG})
        writer.write(b"0\r\n\r\n")

    async def main() -> None:
        small = FakeEngine(answer=breaks)
        async with started(small), running(stages(small)) as up:
            answers = [await up.chat(model, stream=True) for model in ("small", "cascadia")]
            replica = up.router.stages[0].replicas[0]
        assert [(answer.status_code, answer.json()["error"]) for answer in answers] == [(400, LONG)] * 2
        assert replica.running == 0

    run(main)

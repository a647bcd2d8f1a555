"""An engine that says within a 200 that it failed is taken at its word: vLLM and SGLang in an event of a stream."""

import asyncio
import json
from typing import Any

import pytest

from cascadia.router.settings.model import RouterSettings
from cascadia.router.upstream.told_failure import first_failure, last_failure, told_failure
from cascadia.testing.engines import Answer, FakeEngine, begin_stream, delta, event, send, started
from cascadia.testing.routers import QUICK, Running, ScriptedGate, run, running, stages

DIED = {"message": "EngineCore died", "type": "InternalServerError", "param": None, "code": 500}
LONG = {"object": "error", "message": "maximum context length is 5", "type": "BadRequestError", "code": 400}


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
        first_failure(b": comment\n\n" + line),
        last_failure(b"data: {}\n\n" + line + b"data: [DONE]\n\n"),
    ):
        assert (None if found is None else found.status) == status
    assert first_failure(line.rstrip()) is None
    assert first_failure(b"data: {}\n\n" + line) is None

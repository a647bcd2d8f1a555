"""Numbers of any size, from clients and engines: each request has an end, and none is another's ruin."""

import asyncio
import json
from typing import Any

import pytest
from prometheus_client import generate_latest

from cascadia.router.access.keys import KeyLimits
from cascadia.router.openai.bounded import MOST_TOKENS
from cascadia.router.openai.one_pass import classified_in
from cascadia.router.openai.requests import OUTPUT_TOKENS, read_fields
from cascadia.router.openai.stream_usage import StreamUsage
from cascadia.router.upstream.errors import UpstreamError
from cascadia.testing.engines import FakeEngine, completion, send
from cascadia.testing.one_pass import classification
from cascadia.testing.routers import ScriptedGate, run, running, stages, started
from tests.unit.router.access.test_limits import limited, usage_of
from tests.unit.router.cascade.test_one_pass import two

HUGE = "1" + "0" * 400
ODD = (HUGE, f"-{HUGE}", str(2**64), "-1", "0")


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "n", "max_output_tokens"])
def test_no_limit_of_one_request_keeps_another_from_being_served(name: str) -> None:
    async def main() -> None:
        engines = FakeEngine("a"), FakeEngine("b")
        gate = ScriptedGate({"a": 20.0})
        async with limited(KeyLimits(concurrent=9), *engines, thresholds=(50.0,), gate=gate) as (up, header):
            for number in ODD:
                for model in ("small", "cascadia"):
                    body = f'{{"model":"{model}","messages":[],"{name}":{number}}}'
                    found = await up.client.post("/v1/chat/completions", content=body, headers=header)
                    assert found.status_code == 200, found.text
            assert usage_of(up).running == up.router.service.running == 0
            assert not any(r.outstanding_tokens for s in up.router.stages for r in s.replicas)
            assert (await up.chat("small", headers=header)).status_code == 200

    run(main)


@pytest.mark.parametrize(
    ("more", "output", "most"),
    [
        ("", OUTPUT_TOKENS, None),
        (',"max_tokens":7', 7, 7),
        (',"max_tokens":7,"n":3', 21, 21),
        (',"max_tokens":-1', OUTPUT_TOKENS, None),
        (f',"max_tokens":{HUGE}', MOST_TOKENS, MOST_TOKENS),
        (f',"max_tokens":7,"n":{HUGE}', MOST_TOKENS, MOST_TOKENS),
        (f',"max_tokens":7,"n":-{HUGE}', 7, 7),
    ],
)
def test_what_a_request_may_write_is_a_number_of_tokens(more: str, output: int, most: int | None) -> None:
    fields = read_fields(f'{{"model":"m"{more}}}'.encode())
    assert (fields.output_tokens, fields.most_output) == (output, most)


@pytest.mark.parametrize("number", [HUGE, f"-{HUGE}", "-5"])
@pytest.mark.parametrize(
    ("path", "begin", "end"),
    [
        ("/v1/chat/completions", '"choices":[{"index":0,"message":{"content":"a"}}]', "completion_tokens"),
        ("/v1/responses", '"output":[{"type":"message","content":[{"text":"a"}]}]', "output_tokens"),
    ],
)
def test_what_no_answer_can_have_is_not_counted(path: str, begin: str, end: str, number: str) -> None:
    async def boasts(_: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        usage = f'"usage":{{"prompt_tokens":{number},"input_tokens":{number},"{end}":{number}}}'
        send(writer, 200, f"{{{begin},{usage}}}".encode())

    async def main() -> None:
        engines = FakeEngine(answer=boasts), FakeEngine("b")
        gate = ScriptedGate({"a": 80.0})
        async with limited(KeyLimits(), *engines, thresholds=(50.0,), gate=gate) as (up, header):
            for model in ("small", "cascadia"):
                body = {"model": model, "input": "q", "messages": [{"role": "user", "content": "q"}]}
                found = await up.client.post(path, json=body, headers=header)
                assert (found.status_code, found.headers["x-cascadia-stage"]) == (200, "small")
            assert up.router.service.running == 0
            up.router.journal.flush()
            # Nor is it for nothing: as of an engine that says none, by its length.
            assert [0 < line["tokens"]["small"] < 50 for line in up.lines] == [True] * 2
            assert b"cascadia_in_flight 0.0" in generate_latest(up.router.metrics.registry)

    run(main)


@pytest.mark.parametrize("told", [{"left": [10**400]}, {"left": [1], "settings": 2**70}, {"left": [-1]}])
def test_exits_that_no_engine_has_are_no_answer(told: dict[str, Any]) -> None:
    with pytest.raises(UpstreamError):
        asyncio.run(classified_in(b"application/json", classification([[0.9, 0.1]], told), 1))


def test_a_stream_that_counts_more_than_an_answer_can_have_is_estimated() -> None:
    usage = StreamUsage()
    usage.add(f'data: {{"usage":{{"prompt_tokens":7,"completion_tokens":{"9" * 40}}}}}\n\n'.encode())
    assert usage.tokens(5) == 6


def test_a_date_that_no_calendar_has_is_none() -> None:
    async def full(_: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 429, b"{}", more="retry-after: Fri, 31 Dec 99999999999 23:59:59 GMT\r\n")

    async def main() -> None:
        engines = FakeEngine(answer=full), FakeEngine("b")
        gate = ScriptedGate({})
        async with limited(KeyLimits(), *engines, thresholds=(50.0,), gate=gate, queue_s=0.1) as (up, header):
            assert (await up.chat("small", headers=header)).status_code == 429

    run(main)


def test_an_engine_that_asks_for_no_rest_is_asked_again() -> None:
    async def once(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        first = len(engine.requests) == 1
        send(writer, 429 if first else 200, b"{}" if first else completion("a"), more="retry-after: 0\r\n")

    async def main() -> None:
        engine = FakeEngine(answer=once)
        async with started(engine), running(stages(engine)) as up:
            assert (await up.chat("small")).status_code == 200

    run(main)


MANY = {f"member {i}": "x" * 8 for i in range(3000)}


@pytest.mark.parametrize("place", ["answer", "part"])
def test_of_a_classification_with_more_members_than_are_read_the_known_are_passed_on(place: str) -> None:
    async def wordy(_: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        document = json.loads(classification([[0.9, 0.1]]))
        (document if place == "answer" else document["data"][0]).update(MANY)
        send(writer, 200, json.dumps(document).encode())

    async def main() -> None:
        engines = FakeEngine(answer=wordy), FakeEngine(answer=wordy)
        async with started(*engines), running(two(*engines)) as up:
            body = {"model": "cascadia", "input": "a"}
            found = (await up.client.post("/v1/classify", json=body)).json()
        assert (found["data"][0]["label"], found["cascadia"]["stage"]) == ("0", "small")

    run(main)


def test_of_a_ranking_with_more_members_than_are_read_the_results_are_passed_on() -> None:
    async def wordy(_: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        results = [{"index": i, "relevance_score": 0.9 - i} for i in range(2)]
        send(writer, 200, json.dumps({"results": results} | MANY).encode())

    async def main() -> None:
        engines = FakeEngine(answer=wordy), FakeEngine(answer=wordy)
        async with started(*engines), running(two(*engines, task="rerank")) as up:
            body = {"model": "cascadia", "query": "q", "documents": ["a", "b"]}
            found = (await up.client.post("/v1/rerank", json=body)).json()
        assert [each["index"] for each in found["results"]] == [0, 1]

    run(main)

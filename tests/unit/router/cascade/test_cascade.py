"""Which stage answers, and what the client is told about it. Over real sockets."""

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cascadia.router.cascade.cascade import _some_has_room
from cascadia.router.openai.rewrite import Noting
from cascadia.router.settings.model import JudgeSettings, RouterSettings
from cascadia.testing.engines import FakeEngine, begin_stream, completion, delta, event, send, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages


async def broken(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    send(writer, 500, b'{"error": {"message": "out of memory"}}')


def test_an_answer_that_is_good_enough_ends_the_cascade() -> None:
    async def main() -> None:
        small, large = FakeEngine("four"), FakeEngine("4")
        async with started(small, large):
            gate = ScriptedGate({"four": 80.0})
            async with running(stages(small, large, thresholds=(70,)), gate) as up:
                answer = await up.chat()
        assert answer.json()["choices"][0]["message"]["content"] == "four"
        assert answer.headers["x-cascadia-stage"] == "small"
        assert answer.headers["x-cascadia-score"] == "80.00"
        assert answer.headers["x-cascadia-attempts"] == "1"
        assert answer.headers["x-cascadia-steps"] == "small;outcome=accepted;score=80.00;threshold=70.00"
        assert answer.json()["usage"]["total_tokens"] == 13
        assert answer.json()["cascadia"]["usage"]["total_tokens"] == 13
        assert gate.seen == [("What is 2+2?", "four")]
        assert large.requests == []

    run(main)


def test_an_answer_below_the_threshold_goes_on_and_usage_is_the_accepted_ones_beside_the_total() -> None:
    async def main() -> None:
        small, large = FakeEngine("five"), FakeEngine("4")
        async with started(small, large):
            gate = ScriptedGate({"five": 69.9})
            async with running(stages(small, large, thresholds=(70,)), gate) as up:
                answer = await up.chat()
                metrics = (await up.client.get("/metrics")).text
        assert answer.headers["x-cascadia-stage"] == "large"
        assert answer.headers["x-cascadia-attempts"] == "2"
        steps = "small;outcome=score;score=69.90;threshold=70.00, large;outcome=accepted"
        assert answer.headers["x-cascadia-steps"] == steps
        assert answer.json()["cascadia"]["steps"] == [
            {"stage": "small", "outcome": "score", "score": 69.9, "threshold": 70.0},
            {"stage": "large", "outcome": "accepted"},
        ]
        assert "x-cascadia-score" not in answer.headers
        assert answer.json()["usage"]["total_tokens"] == 13
        assert answer.json()["cascadia"]["usage"] == {
            "prompt_tokens": 20,
            "completion_tokens": 6,
            "total_tokens": 26,
        }
        assert large.requests[0]["model"] == "large-model"
        assert 'cascadia_stage_escalated_total{reason="score",stage="small"} 1.0' in metrics
        assert 'cascadia_stage_accepted_total{stage="large"} 1.0' in metrics
        assert up.lines[-1]["stage"] == "large"
        assert [step["outcome"] for step in up.lines[-1]["steps"]] == ["score", "accepted"]
        assert "2+2" not in json.dumps(up.lines)

    run(main)


@pytest.mark.parametrize(("threshold", "stage"), [(0.0, "small"), (101.0, "large")])
def test_thresholds_at_the_ends_need_no_judge(threshold: float, stage: str) -> None:
    async def main() -> None:
        small, large = FakeEngine("a"), FakeEngine("b")
        async with started(small, large):
            gate = ScriptedGate({})
            async with running(stages(small, large, thresholds=(threshold,)), gate) as up:
                answer = await up.chat()
        assert answer.headers["x-cascadia-stage"] == stage
        assert gate.seen == []

    run(main)


def test_a_failing_stage_is_passed_over() -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=broken), FakeEngine("4")
        async with (
            started(small, large),
            running(stages(small, large, thresholds=(70,)), ScriptedGate({})) as up,
        ):
            answer = await up.chat()
        assert answer.status_code == 200
        assert answer.headers["x-cascadia-stage"] == "large"

    run(main)


def test_where_the_last_stage_fails_the_best_earlier_answer_is_returned_and_marked() -> None:
    async def main() -> None:
        small, medium, large = FakeEngine("a"), FakeEngine("b"), FakeEngine(answer=broken)
        async with started(small, medium, large):
            gate = ScriptedGate({"a": 60.0, "b": 40.0})
            async with running(stages(small, medium, large, thresholds=(70, 70)), gate) as up:
                answer = await up.chat()
                streamed = await up.chat(stream=True)
        assert answer.headers["x-cascadia-stage"] == "small"
        assert answer.headers["x-cascadia-stopped"] == "failed"
        assert answer.json()["cascadia"]["stopped"] == "failed"
        assert answer.headers["x-cascadia-attempts"] == "3"
        assert streamed.headers["x-cascadia-stage"] == "small"
        assert streamed.text.endswith("data: [DONE]\n\n")

    run(main)


def test_where_every_stage_fails_the_error_is_openais() -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=broken), FakeEngine(answer=broken)
        async with (
            started(small, large),
            running(stages(small, large, thresholds=(70,)), ScriptedGate({})) as up,
        ):
            answer = await up.chat()
        assert answer.status_code == 502
        error = answer.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert "127.0.0.1" not in error["message"]
        assert error["message"].endswith("Its engine answered HTTP 500: out of memory")

    run(main)


@pytest.mark.parametrize(("rule", "stage"), [("escalate", "large"), ("accept", "small")])
@pytest.mark.parametrize("slow", [False, True])
def test_a_judge_that_fails_is_named_counted_and_handled_by_the_rule(
    rule: Any, stage: str, slow: bool
) -> None:
    async def main() -> None:
        small, large = FakeEngine("a"), FakeEngine("b")
        async with started(small, large):
            gate = ScriptedGate({"a": None}, slow=slow)
            judge = JudgeSettings("certainty", timeout_s=0.05, on_failure=rule)
            async with running(stages(small, large, thresholds=(70,)), gate, judge) as up:
                answer = await up.chat()
                metrics = (await up.client.get("/metrics")).text
        assert answer.headers["x-cascadia-stage"] == stage
        kind = "timeout" if slow else "nonsense"
        assert f'cascadia_judge_failures_total{{kind="{kind}",stage="small"}} 1.0' in metrics

    run(main)


def test_requests_carry_their_own_limits_and_no_engine_sees_them() -> None:
    async def main() -> None:
        engines = [FakeEngine("a"), FakeEngine("b"), FakeEngine("c")]
        async with started(*engines):
            gate = ScriptedGate({"a": 75.0, "b": 75.0})
            async with running(stages(*engines, thresholds=(70, 70)), gate) as up:
                assert (await up.chat(min_stage="medium")).headers["x-cascadia-stage"] == "medium"
                stricter = await up.chat(score_min=80, max_stage="medium")
                assert stricter.headers["x-cascadia-stage"] == "medium"
                assert "x-cascadia-score" not in stricter.headers
                by_header = await up.chat(headers={"x-cascadia-min-stage": "large"})
                assert by_header.headers["x-cascadia-stage"] == "large"
                wrongs = (
                    {"score_min": 101},
                    {"score_min": 0.78},
                    {"quality_min": 101},
                    {"deadline_ms": 0},
                    {"n": "two"},
                )
                for wrong in ({"max_stage": "huge"}, *wrongs):
                    refused = await up.chat(**wrong)
                    assert refused.status_code == 400
                    assert refused.json()["error"]["param"] in wrong
                assert (await up.chat(min_stage="large", max_stage="small")).status_code == 400
        for engine in engines:
            for request in engine.requests:
                assert set(request) == {"model", "messages"}

    run(main)


def test_the_former_name_of_score_min_works_and_is_told() -> None:
    async def main() -> None:
        engines = [FakeEngine("a"), FakeEngine("b")]
        async with started(*engines):
            gate = ScriptedGate({"a": 75.0})
            async with running(stages(*engines, thresholds=(70,)), gate) as up:
                for limits in ({"body": {"quality_min": 80}}, {"headers": {"x-cascadia-quality-min": "80"}}):
                    answer = await up.chat(headers=limits.get("headers"), **limits.get("body", {}))
                    assert answer.headers["x-cascadia-stage"] == "large"
                    assert answer.headers["x-cascadia-deprecated"] == "quality_min;use=score_min"
                now = await up.chat(score_min=80)
                assert now.headers["x-cascadia-stage"] == "large"
                assert "x-cascadia-deprecated" not in now.headers
                both = await up.chat(score_min=80, quality_min=80)
                assert (both.status_code, both.json()["error"]["param"]) == (400, "quality_min")
        for engine in engines:
            assert all(set(request) == {"model", "messages"} for request in engine.requests)

    run(main)


def test_a_deadline_that_allows_no_further_stage_stops_escalation_and_says_so() -> None:
    async def main() -> None:
        small, large = FakeEngine("a"), FakeEngine("b")
        async with (
            started(small, large),
            running(stages(small, large, thresholds=(70,)), ScriptedGate({"a": 10.0})) as up,
        ):
            up.router.stages[1].admission.times.p90_s = 60.0
            answer = await up.chat(deadline_ms=20_000)
        assert answer.headers["x-cascadia-stage"] == "small"
        assert answer.headers["x-cascadia-stopped"] == "deadline"
        assert large.requests == []

    run(main)


def test_a_stage_that_would_be_late_under_its_queue_is_not_asked_and_the_fastest_answers_or_nobody() -> None:
    async def main() -> None:
        small, medium, large = FakeEngine("a"), FakeEngine("b"), FakeEngine("c")
        gate = ScriptedGate({"a": 10.0, "b": 90.0})
        async with started(small, medium, large):
            told = stages(small, medium, large, thresholds=(70, 70))
            async with running(told, gate) as up:
                for stage, p90_s in zip(up.router.stages, (40.0, 1.0, 60.0), strict=True):
                    stage.admission.times.p90_s = p90_s
                answer = await up.chat(deadline_ms=20_000)
                assert answer.headers["x-cascadia-stage"] == "medium"
                assert answer.headers["x-cascadia-stopped"] == "deadline"
                up.router.stages[1].admission.times.p90_s = 30.0
                assert (await up.chat(deadline_ms=20_000)).headers["x-cascadia-stage"] == "medium"
                # An answer of few tokens takes a small share of that.
                short = await up.chat(deadline_ms=20_000, max_tokens=2)
                assert short.headers["x-cascadia-steps"].startswith("small")
                assert len(large.requests) == 0
            refuses = RouterSettings(told, JudgeSettings("certainty"), health=QUICK, when_overloaded="refuse")
            async with running(refuses, gate) as up:
                for stage in up.router.stages:
                    stage.admission.times.p90_s = 30.0
                late = await up.chat(deadline_ms=20_000)
                assert late.status_code == 504
                assert late.json()["error"]["code"] == "stage_timeout"

    run(main)


def test_a_deadline_that_passes_in_the_last_stage_returns_what_there_is() -> None:
    async def hang(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await engine.left.wait()

    async def main() -> None:
        small, large = FakeEngine("a"), FakeEngine(answer=hang)
        async with (
            started(small, large),
            running(stages(small, large, thresholds=(70,)), ScriptedGate({"a": 10.0})) as up,
        ):
            answer = await up.chat(deadline_ms=1500)
            alone = await up.chat("large", deadline_ms=100)
        assert answer.headers["x-cascadia-stopped"] == "deadline"
        assert alone.status_code == 504
        assert up.router.stages[1].replicas[0].breaker.failures == 0

    run(main)


def test_a_held_stream_is_released_whole_and_the_last_stage_streams_live() -> None:
    go = asyncio.Event()

    async def live(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        event(writer, delta("first"))
        await go.wait()
        event(writer, delta("second"))
        event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")

    async def main() -> None:
        small, large = FakeEngine("yes"), FakeEngine(answer=live)
        async with started(small, large):
            gate = ScriptedGate({"yes": 90.0})
            async with running(stages(small, large, thresholds=(70,)), gate) as up:
                held = await up.chat(stream=True, stream_options={"include_usage": True})
                gate.scores["yes"] = 10.0
                body = {"model": "cascadia", "stream": True, "messages": [{"role": "user", "content": "x"}]}
                async with up.client.stream("POST", "/v1/chat/completions", json=body) as answer:
                    assert answer.headers["x-cascadia-stage"] == "large"
                    parts = answer.aiter_text()
                    assert "first" in await anext(parts)
                    go.set()
                    rest = "".join([part async for part in parts])
        data = [json.loads(line[6:]) for line in held.text.splitlines() if line.startswith("data: {")]
        assert "".join(d["choices"][0]["delta"]["content"] for d in data if d["choices"]) == "yes"
        assert data[-1]["usage"]["total_tokens"] == 13
        assert data[-1]["cascadia"]["stage"] == "small"
        assert held.headers["x-cascadia-score"] == "90.00"
        assert rest.count("second") == 1
        assert "[DONE]" in rest

    run(main)


def test_the_usage_event_of_a_live_stream_carries_the_total_of_all_stages() -> None:
    async def main() -> None:
        small, large = FakeEngine("no"), FakeEngine("yes")
        async with (
            started(small, large),
            running(stages(small, large, thresholds=(70,)), ScriptedGate({"no": 10.0})) as up,
        ):
            answer = await up.chat(stream=True, stream_options={"include_usage": True})
        data = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        assert data[-1]["usage"]["total_tokens"] == 13
        assert data[-1]["cascadia"]["usage"]["total_tokens"] == 26
        assert data[-1]["cascadia"]["stage"] == "large"
        assert answer.text.endswith("data: [DONE]\n\n")

    run(main)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_note_finds_the_usage_event_wherever_a_stream_is_cut(size: int) -> None:
    parts = [b'data: {"choices": [{"delta": {"content": "say \\"usage\\""}}]}\n\n']
    parts += [
        b'data: {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 3}}\n\n',
        b"data: [DONE]\n\n",
    ]
    stream = b"".join(parts)
    noting = Noting(lambda usage: {"seen": usage.output_tokens})
    out = b"".join(noting.part(stream[i : i + size]) for i in range(0, len(stream), size)) + noting.rest()
    assert out == stream.replace(b"3}}", b'3},"cascadia":{"seen":3}}')
    silent = Noting()
    out = b"".join(silent.part(stream[i : i + size]) for i in range(0, len(stream), size)) + silent.rest()
    assert out == b"".join((parts[0], parts[2]))


def test_a_client_that_did_not_ask_for_usage_or_logprobs_does_not_get_them() -> None:
    async def main() -> None:
        small, large = FakeEngine("yes", logprobs=[[-0.1, -3.0]]), FakeEngine("no")
        async with started(small, large):
            settings = stages(small, large, thresholds=(50,))
            async with running(settings, judge=JudgeSettings("certainty")) as up:
                answer = await up.chat()
                asked = await up.chat(logprobs=True)
                streamed = await up.chat(stream=True)
        assert answer.headers["x-cascadia-stage"] == "small"
        assert answer.json()["choices"][0]["logprobs"] is None
        assert small.requests[0]["top_logprobs"] == 2
        assert asked.json()["choices"][0]["logprobs"]["content"][0]["token"] == "0"
        assert '"usage": {' not in streamed.text

    run(main)


def test_of_an_answer_that_nobody_judges_a_client_has_all_log_probabilities_that_its_engine_gives() -> None:
    """The token that was drawn too, beyond as many as were asked for."""

    async def main() -> None:
        small, large = FakeEngine("no"), FakeEngine("yes", logprobs=[[-0.1, -3.0]])
        async with started(small, large):
            settings = stages(small, large, thresholds=(101,))
            async with running(settings, judge=JudgeSettings("certainty")) as up:
                answer = await up.chat(logprobs=True, top_logprobs=1)
        assert answer.headers["x-cascadia-stage"] == "large"
        (token,) = answer.json()["choices"][0]["logprobs"]["content"]
        assert len(token["top_logprobs"]) == 2

    run(main)


def test_heartbeats_come_before_the_decision_and_an_error_after_them_is_an_event() -> None:
    go = asyncio.Event()

    async def late(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await go.wait()
        send(writer, 500, b"{}")

    async def main() -> None:
        small = FakeEngine(answer=late)
        async with started(small), running(stages(small), heartbeat_s=0.02) as up:
            body = {"model": "cascadia", "stream": True, "messages": []}
            async with up.client.stream("POST", "/v1/chat/completions", json=body) as answer:
                parts = answer.aiter_text()
                assert (await anext(parts)).startswith(": ")
                go.set()
                rest = "".join([part async for part in parts])
        last = rest.strip().splitlines()[-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "stage_failed"

    run(main)


def test_of_several_choices_the_weakest_decides_and_too_many_go_to_the_last_stage() -> None:
    async def two(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        found = json.loads(completion("good"))
        found["choices"].append({"index": 1, "message": {"content": "bad"}, "finish_reason": "stop"})
        send(writer, 200, json.dumps(found).encode())

    async def main() -> None:
        small, large = FakeEngine(answer=two), FakeEngine("b")
        async with started(small, large):
            gate = ScriptedGate({"good": 90.0, "bad": 20.0})
            async with running(stages(small, large, thresholds=(50,)), gate) as up:
                assert (await up.chat(n=2)).headers["x-cascadia-stage"] == "large"
                gate.scores["bad"] = 60.0
                assert (await up.chat(n=2)).headers["x-cascadia-score"] == "60.00"
                asked = len(small.requests)
                assert (await up.chat(n=9)).headers["x-cascadia-attempts"] == "1"
                assert len(small.requests) == asked

    run(main)


def test_json_mode_and_tools_are_checked_before_the_judge_is_asked() -> None:
    def calls(name: str, arguments: str) -> bytes:
        found = json.loads(completion(""))
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
        found["choices"][0]["message"] = {"role": "assistant", "content": None, "tool_calls": [call]}
        return json.dumps(found).encode()

    said = [b""]

    async def say(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 200, said[0])

    async def main() -> None:
        small, large = FakeEngine(answer=say), FakeEngine("b")
        async with started(small, large):
            gate = ScriptedGate({"": 90.0, '{"a": 1}': 90.0})
            async with running(stages(small, large, thresholds=(50,)), gate) as up:
                tools = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
                schema = {"type": "object", "required": ["a"]}
                form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
                for content, request, stage in [
                    (completion("not json"), {"response_format": {"type": "json_object"}}, "large"),
                    (completion('{"b": 1}'), {"response_format": form}, "large"),
                    (completion('{"a": 1}'), {"response_format": form}, "small"),
                    (completion(""), {}, "large"),
                    (calls("add", '{"x": 1}'), {"tools": tools}, "small"),
                    (calls("add", "{"), {"tools": tools}, "large"),
                    (calls("rm", "{}"), {"tools": tools}, "large"),
                ]:
                    said[0] = content
                    assert (await up.chat(**request)).headers["x-cascadia-stage"] == stage
        assert small.requests[-1]["tools"] == tools

    run(main)


def test_a_prompt_longer_than_a_stages_context_skips_it_by_length_or_by_the_engines_word() -> None:
    async def full(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 400, b'{"error": {"message": "maximum context length is 2048", "code": 400}}')

    async def main() -> None:
        small, medium, large = FakeEngine("a"), FakeEngine(answer=full), FakeEngine("c")
        async with started(small, medium, large):
            first, *others = stages(small, medium, large, thresholds=(50, 50))
            settings = (replace(first, max_model_len=100), *others)
            async with running(settings, ScriptedGate({})) as up:
                answer = await up.chat(messages=[{"role": "user", "content": "x" * 4000}])
        assert small.requests == []
        assert answer.headers["x-cascadia-stage"] == "large"

    run(main)


def test_a_clients_own_mistake_is_the_engines_answer_and_goes_no_further() -> None:
    async def refuse(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 400, b'{"error": {"message": "temperature must be positive"}}')

    async def main() -> None:
        small, large = FakeEngine(answer=refuse), FakeEngine("b")
        async with (
            started(small, large),
            running(stages(small, large, thresholds=(50,)), ScriptedGate({})) as up,
        ):
            for model in ("cascadia", "small"):
                for _ in range(10):
                    answer = await up.chat(model)
                    assert answer.status_code == 400
                    assert answer.json()["error"]["message"] == "temperature must be positive"
            breaker = up.router.stages[0].replicas[0].breaker
        assert breaker.failures == 0
        assert large.requests == []

    run(main)


def test_stages_that_are_not_deployed_are_skipped_and_stand_for_their_neighbours() -> None:
    async def main() -> None:
        small, large = FakeEngine("a"), FakeEngine("b")
        async with started(small, large):
            both = stages(small, large, thresholds=(50,))
            settings = RouterSettings(both, None, names=("tiny", "small", "medium", "large"))
            async with running(settings, ScriptedGate({"a": 10.0})) as up:
                assert (await up.chat()).headers["x-cascadia-stage"] == "large"
                assert (await up.chat(max_stage="medium")).headers["x-cascadia-stage"] == "small"
                assert (await up.chat(max_stage="tiny")).status_code == 400
                assert (await up.chat("medium")).headers["x-cascadia-alias"] == "large"

    run(main)


@pytest.mark.parametrize(
    ("crowded", "room"),
    [
        ((True, True, False), True),
        ((True, False, True), True),
        ((False, True, True), False),
        ((True,) * 3, False),
    ],
)
def test_room_is_looked_for_on_larger_stages_alone(crowded: tuple[bool, ...], room: bool) -> None:
    way: Any = [SimpleNamespace(name=name, crowded=each) for name, each in zip("abc", crowded, strict=True)]
    assert _some_has_room(way, way[0]) is room
    assert _some_has_room(way, way[1]) is not crowded[2]
    assert not _some_has_room(way, way[2])

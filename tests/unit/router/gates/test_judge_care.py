"""What a judge costs, and what becomes of requests when it is slow, down, or lies."""

import asyncio
import json
from typing import Any

import pytest

from cascadia.router.settings.model import JudgeSettings, ReplicaSettings, StageSettings
from cascadia.testing.engines import Answer, FakeEngine, completion, send, started
from cascadia.testing.routers import run, running, stages


def llm(engine: FakeEngine, **more: Any) -> JudgeSettings:
    stage = StageSettings("judge", "judge", (ReplicaSettings(engine.url),))
    return JudgeSettings("llm", stage, **{"cache_size": 0, **more})


def grades(said: str) -> Answer:
    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 200, completion(said))

    return answer


async def hang(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    await engine.left.wait()


@pytest.mark.parametrize("stream", [False, True])
def test_the_judges_tokens_are_in_the_cascades_total_and_in_its_own_metrics(stream: bool) -> None:
    async def main() -> None:
        small, large, judge = FakeEngine("five"), FakeEngine("4"), FakeEngine(answer=grades("2"))
        async with started(small, large, judge):
            settings = stages(small, large, thresholds=(50,))
            async with running(settings, judge=llm(judge, cache_size=10)) as up:
                more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
                answers = [await up.chat(**more) for _ in range(2)]
                metrics = (await up.client.get("/metrics")).text
        totals = []
        for answer in answers:
            lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
            document = json.loads(lines[-1]) if stream else answer.json()
            assert document["usage"]["total_tokens"] == 13
            totals.append(document["cascadia"]["usage"]["total_tokens"])
        # Two stages and a verdict; the second time the verdict is known.
        assert totals == [39, 26]
        assert 'cascadia_stage_tokens_total{direction="input",stage="judge"} 10.0' in metrics

    run(main)


def test_repeated_questions_to_the_judge_and_those_of_all_choices_are_counted() -> None:
    async def two(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        found = json.loads(completion("a"))
        found["choices"].append({"index": 1, "message": {"content": "b"}, "finish_reason": "stop"})
        send(writer, 200, json.dumps(found).encode())

    async def main() -> None:
        small, judge = FakeEngine(answer=two), FakeEngine(answer=grades("9"))
        large = FakeEngine("c")
        async with started(small, large, judge):
            settings = stages(small, large, thresholds=(50,))
            async with running(settings, judge=llm(judge)) as up:
                answer = await up.chat(n=2)
                judge.answer = grades("no grade at all")
                asked = len(judge.requests)
                nonsense = await up.chat(max_tokens=5)
                times = len(judge.requests) - asked
        assert answer.json()["cascadia"]["usage"]["total_tokens"] == 13 + 2 * 13
        assert nonsense.json()["cascadia"]["usage"]["total_tokens"] == 2 * 13 + times * 13
        assert times > 2

    run(main)


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize(("rule", "stage"), [("escalate", "large"), ("accept", "small")])
def test_a_judge_that_is_slow_time_and_again_is_left_alone_like_one_that_is_down(
    rule: Any, stage: str
) -> None:
    async def main() -> None:
        small, large, judge = FakeEngine("a"), FakeEngine("b"), FakeEngine(answer=hang)
        async with started(small, large, judge):
            settings = stages(small, large, thresholds=(50,))
            patience = llm(judge, timeout_s=1.0, on_failure=rule)
            async with running(settings, judge=patience, breaker_failures=3, breaker_first_s=60.0) as up:
                answers = [await up.chat() for _ in range(8)]
                metrics = (await up.client.get("/metrics")).text
        assert [a.headers["x-cascadia-stage"] for a in answers] == [stage] * 8
        assert len(judge.requests) == 3
        assert 'cascadia_judge_failures_total{kind="no-replica",stage="small"} 5.0' in metrics

    run(main)


def test_a_deadline_of_the_clients_own_is_not_the_judges_failure() -> None:
    async def main() -> None:
        small, large, judge = FakeEngine("a"), FakeEngine("b"), FakeEngine(answer=hang)
        async with started(small, large, judge):
            settings = stages(small, large, thresholds=(50,))
            async with running(settings, judge=llm(judge, timeout_s=60.0)) as up:
                answer = await up.chat(deadline_ms=200)
                assert up.router.judge is not None
                breaker = up.router.judge.replicas[0].breaker
        assert answer.status_code in (200, 504)
        assert breaker.failures == 0

    run(main)


@pytest.mark.parametrize("said", ["", "10", "-3", "NaN", "seven", "9" * 500, "\u0669"])
def test_a_judge_that_lies_about_its_scale_is_no_score_above_it(said: str) -> None:
    async def main() -> None:
        small, large, judge = FakeEngine("a"), FakeEngine("b"), FakeEngine(answer=grades(said))
        async with started(small, large, judge):
            settings = stages(small, large, thresholds=(100,))
            async with running(settings, judge=llm(judge)) as up:
                answer = await up.chat()
        assert answer.status_code == 200
        assert answer.headers["x-cascadia-stage"] == "large"

    run(main)

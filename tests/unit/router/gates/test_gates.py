"""What a gate reads of a judge's words and of an engine's own probabilities."""

import asyncio
import json
import math
from dataclasses import replace
from typing import Any

import pytest

from cascadia.router.examiner.examiner import Examiner
from cascadia.router.gates.base import JudgeFailed
from cascadia.router.gates.cache import CachedGate
from cascadia.router.gates.certainty import CertaintyGate
from cascadia.router.openai.answers import Choice
from cascadia.router.settings.model import JudgeSettings, Limits
from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import run, running, stages, until
from tests.injection.honest import HONEST


def judge_of(engine: FakeEngine, **more: Any) -> JudgeSettings:
    (stage,) = stages(engine)
    return JudgeSettings("llm", replace(stage, name="judge", model="judge-model"), **more)


def graded(probability: dict[str, float]) -> bytes:
    tops = [{"token": token, "logprob": math.log(p)} for token, p in probability.items()]
    found = json.loads(completion(next(iter(probability))))
    found["choices"][0]["logprobs"] = {"content": [tops[0] | {"top_logprobs": tops}]}
    return json.dumps(found).encode()


def test_the_llm_judges_score_is_the_expected_digit() -> None:
    async def grade(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 200, graded({"9": 0.5, "0": 0.5}))

    async def main() -> None:
        small, large, judge = FakeEngine("four"), FakeEngine("4"), FakeEngine(answer=grade)
        async with started(small, large, judge):
            settings = stages(small, large, thresholds=(50,))
            async with running(settings, judge=judge_of(judge)) as up:
                await until(lambda: up.router.judge is not None and up.router.judge.ready)
                answer = await up.chat()
        assert answer.headers["x-cascadia-score"] == "50.00"
        assert answer.headers["x-cascadia-stage"] == "small"
        (asked,) = judge.requests
        assert asked["model"] == "judge-model"
        assert asked["max_tokens"] == 1
        assert "What is 2+2?" in asked["messages"][1]["content"]
        assert "four" in asked["messages"][1]["content"]

    run(main)


def test_an_honest_answer_in_any_format_is_graded_once_and_as_it_stands() -> None:
    answers = [answer for some in HONEST.values() for answer in some]
    wanted = ""

    async def grade(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        whole = f"]\n{wanted}\n[end of answer" in body["messages"][1]["content"]
        send(writer, 200, graded({"7": 1.0} if whole else {"0": 1.0}))

    async def main() -> None:
        nonlocal wanted
        small, large, judge = FakeEngine(), FakeEngine("4"), FakeEngine(answer=grade)
        async with started(small, large, judge):
            settings = stages(small, large, thresholds=(70,))
            async with running(settings, judge=judge_of(judge)) as up:
                await until(lambda: up.router.judge is not None and up.router.judge.ready)
                for small.text in answers:
                    wanted = small.text
                    reply = await up.chat()
                    assert (reply.headers["x-cascadia-stage"], reply.headers["x-cascadia-score"]) == (
                        "small",
                        "77.78",
                    ), wanted
        assert len(judge.requests) == len(answers)
        assert large.requests == []

    run(main)


@pytest.mark.parametrize("empty", ["", " \n", "\u200b"])
def test_an_answer_of_which_nothing_is_seen_is_worth_nothing_and_no_judge_is_asked(empty: str) -> None:
    async def main() -> None:
        small, large, judge = FakeEngine(empty), FakeEngine("4"), FakeEngine("9")
        async with started(small, large, judge):
            settings = stages(small, large, thresholds=(1,))
            async with running(settings, judge=judge_of(judge)) as up:
                await until(lambda: up.router.judge is not None and up.router.judge.ready)
                reply = await up.chat()
        assert reply.headers["x-cascadia-stage"] == "large"
        assert judge.requests == []

    run(main)


def test_a_judge_that_talks_is_asked_in_another_manner() -> None:
    async def talk(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if "response_format" in body:
            send(writer, 400, b'{"error": {"message": "no schemas here"}}')
        elif body.get("logprobs"):
            send(writer, 400, b'{"error": {"message": "logprobs are not supported"}}')
        else:
            send(writer, 200, completion("The" if body["max_tokens"] == 1 else "The grade is 8"))

    async def main() -> None:
        small, large, judge = FakeEngine("four"), FakeEngine("4"), FakeEngine(answer=talk)
        async with started(small, large, judge):
            settings = stages(small, large, thresholds=(80,))
            async with running(settings, judge=judge_of(judge)) as up:
                await until(lambda: up.router.judge is not None and up.router.judge.ready)
                first = await up.chat()
                asked = len(judge.requests)
                second = await up.chat(messages=[{"role": "user", "content": "another question"}])
        assert first.headers["x-cascadia-score"] == second.headers["x-cascadia-score"] == "88.89"
        assert len(judge.requests) - asked == 2, "it has learned what this judge cannot do"

    run(main)


@pytest.mark.parametrize("how", ["nonsense", "down"])
def test_without_a_verdict_the_request_escalates_and_the_reason_is_counted(how: str) -> None:
    async def main() -> None:
        small, large, judge = FakeEngine("four"), FakeEngine("4"), FakeEngine("no grade")
        async with started(small, large, judge):
            settings = stages(small, large, thresholds=(50,))
            async with running(settings, judge=judge_of(judge)) as up:
                await until(lambda: up.router.judge is not None and up.router.judge.ready)
                if how == "down":
                    await judge.stop()
                answer = await up.chat()
                metrics = (await up.client.get("/metrics")).text
        assert answer.headers["x-cascadia-stage"] == "large"
        assert 'cascadia_stage_escalated_total{reason="judge",stage="small"} 1.0' in metrics
        assert "cascadia_judge_failures_total{" in metrics

    run(main)


class Grader:
    """Grades 60, or as told; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.fails = False

    def wants(self, api: str) -> dict[str, Any]:
        return {}

    async def score(self, question: str, choice: Choice, deadline_s: float) -> float:
        self.asked.append((question, choice.text))
        if self.fails:
            raise JudgeFailed("nonsense")
        return 60.0


def test_a_verdict_is_asked_for_once_and_failures_and_the_longest_unused_are_forgotten() -> None:
    async def main() -> None:
        grader = Grader()
        cached = CachedGate(grader, size=2)
        for question, text in [("q", "a"), ("q", "a"), ("qa", ""), ("q", "a"), ("q", "c"), ("qa", "")]:
            assert await cached.score(question, Choice(text), 0.0) == 60.0
        assert grader.asked == [("q", "a"), ("qa", ""), ("q", "c"), ("qa", "")]
        grader.fails = True
        for _ in range(2):
            with pytest.raises(JudgeFailed):
                await cached.score("new", Choice("x"), 0.0)
        assert len(grader.asked) == 6

    run(main)


def entry(*logprobs: float) -> dict[str, Any]:
    tops = [{"token": str(i), "logprob": p} for i, p in enumerate(logprobs)]
    return {"token": "0", "logprob": logprobs[0], "top_logprobs": tops}


def certainty(*parts: object) -> float:
    choice = Choice("x", logprobs=[json.dumps(part).encode() for part in parts])
    return asyncio.run(CertaintyGate(Examiner(Limits())).score("", choice, 0.0))


def test_certainty_is_the_mean_margin_between_the_first_two_tokens() -> None:
    sure, torn = entry(math.log(0.9), math.log(0.1)), entry(math.log(0.5), math.log(0.5))
    assert certainty({"content": [sure, torn]}) == pytest.approx(40.0)
    assert certainty({"content": [sure]}, {"content": [torn]}) == pytest.approx(40.0)
    assert certainty({"top_logprobs": [{"a": math.log(0.9), "b": math.log(0.1)}]}) == pytest.approx(80.0)


def test_an_answer_without_probabilities_has_no_certainty() -> None:
    with pytest.raises(JudgeFailed, match="no-logprobs"):
        certainty()
    with pytest.raises(JudgeFailed, match="unreadable-logprobs"):
        certainty([1, 2])

"""Embedding judges, ensembles, agreement, verifiers and foresight, at the gates of a router with engines on
real sockets."""

import asyncio
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cascadia.dispatch.turns import takes_other
from cascadia.router.examiner.examinations import said
from cascadia.router.examiner.examiner import Examiner
from cascadia.router.gates.agreement import AgreementGate
from cascadia.router.gates.base import JudgeFailed
from cascadia.router.gates.cache import SURE_S, CachedGate
from cascadia.router.gates.certainty import CertaintyGate
from cascadia.router.gates.context import ASKED, GateContext
from cascadia.router.gates.ensemble import EnsembleGate
from cascadia.router.openai.answers import Choice
from cascadia.router.openai.logprobs import certainty_in
from cascadia.router.settings.model import (
    JudgeSettings,
    Limits,
    MixtureSettings,
    RouterSettings,
    StageSettings,
)
from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import QUICK, run, running, stages, until
from cascadia_judge.scores.verifiers import Verifier

LOGPROBS = [[-0.1, -3.0], [-0.5, -1.0]]


def scoring(*scores: float) -> FakeEngine:
    """A judge's service that gives these scores in turn, the last again and again."""
    left = list(scores)

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        score = left.pop(0) if len(left) > 1 else left[0]
        send(writer, 200, json.dumps({"score": score, "certainty": 0.5, "tokens": 9}).encode())

    return FakeEngine(answer=answer)


def at(engine: FakeEngine, name: str = "judge") -> StageSettings:
    (stage,) = stages(engine)
    return replace(stage, name=name, model=name)


def embedding(engine: FakeEngine, **more: Any) -> JudgeSettings:
    return JudgeSettings("embedding", at(engine), **more)


def changed(settings: tuple[StageSettings, ...], **more: Any) -> tuple[StageSettings, ...]:
    """The first stage with other settings."""
    return (replace(settings[0], **more), *settings[1:])


async def ready(up: Any) -> None:
    await until(lambda: all(r.state == "ready" for s in up.router.active_plan.all_stages for r in s.replicas))


def test_an_embedding_judge_is_told_question_answer_stage_and_certainty() -> None:
    async def main() -> None:
        small, large, judge = FakeEngine("four", logprobs=LOGPROBS), FakeEngine("4"), scoring(81.5, 20)
        async with started(small, large, judge):
            settings = stages(small, large, thresholds=(50,))
            async with running(settings, judge=embedding(judge)) as up:
                await ready(up)
                messages = [
                    {"role": "user", "content": "1+1?"},
                    {"role": "assistant", "content": "2"},
                    {"role": "user", "content": "2+2?"},
                ]
                good = await up.chat(messages=messages)
                bad = await up.chat()
        assert (good.headers["x-cascadia-score"], good.headers["x-cascadia-stage"]) == ("81.50", "small")
        assert bad.headers["x-cascadia-stage"] == "large"
        told = judge.requests[0]
        assert (told["question"], told["answer"], told["stage"]) == ("2+2?", "four", "small")
        assert told["certainty"]["sum_logprob"] == pytest.approx(-0.6)
        assert told["certainty"]["min_logprob"] == pytest.approx(-0.5)
        assert told["certainty"]["tokens"] == 2
        assert small.requests[0]["top_logprobs"] == 2
        assert good.json()["choices"][0]["logprobs"] is None

    run(main)


def test_an_embedding_judge_without_certainty_asks_for_no_logprobs_and_keeps_its_verdicts() -> None:
    async def main() -> None:
        small, large, judge = FakeEngine("four"), FakeEngine("4"), scoring(60)
        async with started(small, large, judge):
            settings = stages(small, large, thresholds=(50,))
            async with running(settings, judge=embedding(judge, certainty=False)) as up:
                await ready(up)
                answers = [await up.chat() for _ in range(2)]
        assert [a.headers["x-cascadia-score"] for a in answers] == ["60.00", "60.00"]
        assert len(judge.requests) == 1
        assert "certainty" not in judge.requests[0]
        assert "logprobs" not in small.requests[0]

    run(main)


def named(*verdicts: tuple[float, str] | None) -> FakeEngine:
    """A judge's service that gives these scores under these names in turn; None: nothing that can be read."""
    left = list(verdicts)

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        told = left.pop(0)
        document = {} if told is None else {"score": told[0], "judge": told[1]}
        send(writer, 200, json.dumps(document).encode())

    return FakeEngine(answer=answer)


def test_verdicts_of_a_judge_that_was_trained_anew_are_forgotten() -> None:
    """They were given for as long as the router ran, after a reload too."""
    now = 0.0

    async def main() -> None:
        nonlocal now
        small, large = FakeEngine("four"), FakeEngine("4")
        judge = named((60, "a"), (70, "a"), (60, "a"), None, (20, "b"), (30, "b"))
        async with started(small, large, judge):
            settings = stages(small, large, thresholds=(5,))
            async with running(settings, judge=embedding(judge, certainty=False)) as up:
                await ready(up)

                async def scores(*questions: str) -> list[str]:
                    asked = [{"messages": [{"role": "user", "content": each}]} for each in questions]
                    return [(await up.chat(**each)).headers["x-cascadia-score"] for each in asked]

                gate = up.router.active_plan.cascade.scoring.gate
                assert isinstance(gate, CachedGate)
                gate._clock = lambda: now
                gate.doubt()
                assert await scores("x", "y", "x", "y") == ["60.00", "70.00", "60.00", "70.00"]
                assert len(judge.requests) == 2
                up.router.swap(replace(up.router.settings, stages=changed(settings, threshold=6.0)))
                assert up.router.active_plan.cascade.scoring.gate is gate
                # One verdict after a reload tells that it is still the same, whose others stay.
                assert await scores("x", "y", "x") == ["60.00", "70.00", "60.00"]
                assert len(judge.requests) == 3
                now = SURE_S
                assert await scores("x", "y") == ["60.00", "70.00"], "it said nothing of itself"
                assert len(judge.requests) == 4
                now = 2 * SURE_S
                assert await scores("x", "y", "x", "y") == ["20.00", "30.00", "20.00", "30.00"]
                assert len(judge.requests) == 6

    run(main)


@pytest.mark.parametrize(
    "said",
    [b"{}", b'{"score": 101}', b'{"score": -1}', b'{"score": "high"}', b"[" * 5000, b'{"score": null}'],
)
def test_a_judge_that_answers_nonsense_decides_nothing(said: bytes) -> None:
    async def nonsense(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 200, said)

    async def main() -> None:
        small, large, judge = FakeEngine("four"), FakeEngine("4"), FakeEngine(answer=nonsense)
        async with started(small, large, judge):
            settings = stages(small, large, thresholds=(50,))
            async with running(settings, judge=embedding(judge)) as up:
                await ready(up)
                answer = await up.chat()
                metrics = (await up.client.get("/metrics")).text
        assert answer.headers["x-cascadia-stage"] == "large"
        assert 'cascadia_judge_failures_total{kind="unreadable",stage="small"} 1.0' in metrics

    run(main)


def test_a_stage_that_is_likely_to_fail_is_skipped_and_an_unknown_one_is_not() -> None:
    async def main() -> None:
        small, large, judge = FakeEngine("four"), FakeEngine("4"), scoring(10, 30, 90)
        async with started(small, large, judge):
            settings = changed(stages(small, large, thresholds=(50,)), skip_below=25.0)
            async with running(settings, judge=embedding(judge, certainty=False, cache_size=0)) as up:
                await ready(up)
                skipped = await up.chat()
                tried = await up.chat()
                metrics = (await up.client.get("/metrics")).text
                await judge.stop()
                unknown = await up.chat()
        assert skipped.headers["x-cascadia-stage"] == "large"
        assert skipped.headers["x-cascadia-attempts"] == "1"
        assert (tried.headers["x-cascadia-stage"], len(small.requests)) == ("small", 2)
        assert "answer" not in judge.requests[0]
        assert judge.requests[0]["stage"] == "small"
        assert judge.requests[2]["answer"] == "four"
        assert 'cascadia_stage_escalated_total{reason="predicted",stage="small"} 1.0' in metrics
        assert unknown.headers["x-cascadia-stage"] == "large"
        assert unknown.headers["x-cascadia-attempts"] == "2"

    run(main)


def test_a_mixture_is_served_in_the_turns_that_are_simulated() -> None:
    """A share of the requests goes straight to the large model, the rest asks the small one first, and says so."""

    async def main() -> None:
        small, large, judge = FakeEngine("four"), FakeEngine("4"), scoring(*[30] * 20)
        async with started(small, large, judge):
            each = stages(small, large, thresholds=(50,))
            mixture = MixtureSettings(0.4, {"small": 101.0}, {"small": 101.0})
            told = embedding(judge, certainty=False, cache_size=0)
            settings = RouterSettings(each, told, mixture=mixture, health=QUICK)
            async with running(settings) as up:
                await ready(up)
                answers = [await up.chat() for _ in range(12)]
        steps = [answer.headers["x-cascadia-steps"] for answer in answers]
        turns = takes_other(np.arange(12), 0.4)
        assert [not step.startswith("small") for step in steps] == turns.tolist()
        assert ["routing=other" in step for step in steps] == turns.tolist()
        assert len(small.requests) == 12 - turns.sum()

    run(main)


def test_foresight_of_its_own_is_asked_of_all_stages_at_once_and_no_judge_is_needed() -> None:
    """A plan that decides by the question alone: who is not skipped is accepted, unjudged."""

    async def main() -> None:
        small, large, heads = FakeEngine("four"), FakeEngine("4"), scoring(10, 30)
        async with started(small, large, heads):
            each = changed(stages(small, large, thresholds=(0,)), skip_below=25.0)
            told = embedding(heads, certainty=False, cache_size=0)
            async with running(RouterSettings(each, None, told, health=QUICK)) as up:
                await ready(up)
                skipped, kept = await up.chat(), await up.chat()
        assert [a.headers["x-cascadia-stage"] for a in (skipped, kept)] == ["large", "small"]
        assert [a.headers["x-cascadia-attempts"] for a in (skipped, kept)] == ["1", "1"]
        assert ["answer" in asked for asked in heads.requests] == [False, False]

    run(main)


def test_foresight_also_works_where_the_embedding_judge_is_one_of_an_ensemble() -> None:
    async def main() -> None:
        small, large, judge = FakeEngine("four", logprobs=LOGPROBS), FakeEngine("4"), scoring(10)
        async with started(small, large, judge):
            members = (JudgeSettings("certainty"), JudgeSettings("embedding", at(judge, "judge-1")))
            both = JudgeSettings("ensemble", members=members)
            settings = changed(stages(small, large, thresholds=(50,)), skip_below=25.0)
            async with running(settings, judge=both) as up:
                await ready(up)
                answer = await up.chat()
        assert answer.headers["x-cascadia-stage"] == "large"
        assert small.requests == []

    run(main)


@pytest.mark.parametrize(
    ("combine", "score"), [("mean", (3 * 80 + 100 * math.exp(-0.6)) / 4), ("minimum", 100 * math.exp(-0.6))]
)
def test_an_ensemble_is_the_weighted_mean_or_the_lowest(combine: Any, score: float) -> None:
    async def main() -> None:
        small, large, judge = FakeEngine("four", logprobs=LOGPROBS), FakeEngine("4"), scoring(80)
        async with started(small, large, judge):
            members = (
                JudgeSettings("embedding", at(judge, "judge-0"), weight=3.0),
                JudgeSettings("certainty", statistic="sum-logprob"),
            )
            both = JudgeSettings("ensemble", members=members, combine=combine)
            async with running(stages(small, large, thresholds=(10,)), judge=both) as up:
                await ready(up)
                answer = await up.chat()
        assert float(answer.headers["x-cascadia-score"]) == pytest.approx(score, abs=0.01)

    run(main)


def test_where_one_of_an_ensemble_fails_there_is_no_verdict_and_the_others_are_called_off() -> None:
    class Fails:
        def wants(self, api: str) -> dict[str, Any]:
            return {"top_logprobs": 1}

        async def score(self, question: str, choice: Choice, deadline_s: float) -> float:
            raise JudgeFailed("nonsense")

    class Waits:
        cancelled = False

        def wants(self, api: str) -> dict[str, Any]:
            return {"top_logprobs": 5, "logprobs": True}

        async def score(self, question: str, choice: Choice, deadline_s: float) -> float:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled = True
            raise AssertionError("not reached")

    async def main() -> None:
        waits = Waits()
        gate = EnsembleGate([waits, Fails()], [1.0, 1.0], "mean")
        assert gate.wants("chat") == {"top_logprobs": 5, "logprobs": True}
        with pytest.raises(JudgeFailed, match="nonsense"):
            await gate.score("q", Choice("a"), 0.0)
        await asyncio.sleep(0)
        assert waits.cancelled

    asyncio.run(main())


def talking(*texts: str) -> FakeEngine:
    left = list(texts)

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 200, completion(left.pop(0)))

    return FakeEngine(answer=answer)


def test_a_stage_that_agrees_with_itself_is_believed() -> None:
    async def main() -> None:
        small = talking("It is 4.", "it is  4", "It is 4!", "It is 4.", "It is 5.", "It is 6.")
        large = FakeEngine("4")
        judge = JudgeSettings("agreement", samples=2, temperature=0.7)
        async with started(small, large):
            settings = stages(small, large, thresholds=(60,))
            async with running(settings, judge=judge) as up:
                agreed = await up.chat(temperature=0)
                split = await up.chat(temperature=0)
        assert (agreed.headers["x-cascadia-score"], agreed.headers["x-cascadia-stage"]) == ("100.00", "small")
        assert split.headers["x-cascadia-stage"] == "large"
        assert [body["temperature"] for body in small.requests[:3]] == [0, 0.7, 0.7]
        assert agreed.json()["cascadia"]["usage"]["completion_tokens"] == 9
        assert agreed.json()["usage"]["completion_tokens"] == 3

    run(main)


def test_a_stage_that_fails_when_asked_again_gives_no_verdict() -> None:
    async def main() -> None:
        small, large = talking("It is 4."), FakeEngine("4")
        async with started(small, large):
            judge = JudgeSettings("agreement", samples=1)
            async with running(stages(small, large, thresholds=(60,)), judge=judge, max_tries=1) as up:
                answer = await up.chat()
                metrics = (await up.client.get("/metrics")).text
        assert answer.headers["x-cascadia-stage"] == "large"
        assert 'cascadia_stage_escalated_total{reason="judge",stage="small"} 1.0' in metrics

    run(main)


@pytest.mark.parametrize(
    ("text", "found"), [("so 3, then 42.", "42"), ("none", ""), ("x = 7; y = -8.5", "-8.5")]
)
def test_of_an_answer_the_last_match_can_be_what_is_compared(text: str, found: str) -> None:
    assert said(text, r"(-?\d+(?:\.\d+)?)") == found


def test_each_repetition_is_written_in_a_turn_of_its_own() -> None:
    """A long request takes milliseconds to write anew; one after another they let others come between."""

    class AsItIs:
        async def said(self, texts: list[str], _: str | None) -> list[str]:
            return texts

    turn, written = 0, []

    async def again(changes: Any, number: int) -> Choice:
        written.append(turn)
        return Choice("a")

    async def main() -> None:
        nonlocal turn
        ASKED.set(GateContext(again=again))
        examiner: Any = AsItIs()
        scoring = asyncio.ensure_future(AgreementGate(examiner, 5, 0.5).score("q", Choice("a"), 0.0))
        while not scoring.done():
            turn += 1
            await asyncio.sleep(0)
        assert await scoring == 100.0

    asyncio.run(main())
    assert len(set(written)) == 5


def test_agreement_needs_a_request_that_can_be_repeated() -> None:
    async def main() -> None:
        examiner = Examiner(Limits())
        with pytest.raises(JudgeFailed, match="not-repeatable"):
            await AgreementGate(examiner, 1, 0.5).score("q", Choice("a"), 0.0)

        async def again(changes: Any, number: int) -> Choice:
            raise AssertionError("an empty answer is compared with nothing")

        ASKED.set(GateContext(again=again))
        assert await AgreementGate(examiner, 1, 0.5, r"\d+").score("q", Choice("no number"), 0.0) == 0.0
        await examiner.stop()

    asyncio.run(main())


NUMBER = (Verifier("regex", r"^\d+$"),)


@pytest.mark.parametrize(
    ("text", "verified", "stage", "asked"),
    [("4", "judge", "small", 1), ("four", "judge", "large", 0), ("4", "accept", "small", 0)],
)
def test_what_fails_a_verifier_escalates_and_what_passes_is_judged_or_accepted(
    text: str, verified: Any, stage: str, asked: int
) -> None:
    async def main() -> None:
        small, large, judge = FakeEngine(text), FakeEngine("4"), scoring(70)
        async with started(small, large, judge):
            settings = changed(stages(small, large, thresholds=(50,)), verifiers=NUMBER, verified=verified)
            async with running(settings, judge=embedding(judge, certainty=False)) as up:
                await ready(up)
                answer = await up.chat()
        assert answer.headers["x-cascadia-stage"] == stage
        assert len(judge.requests) == asked

    run(main)


def test_verifiers_can_do_without_a_judge() -> None:
    async def main() -> None:
        small, large = FakeEngine("4"), FakeEngine("4")
        async with started(small, large):
            settings = changed(stages(small, large, thresholds=(50,)), verifiers=NUMBER, verified="accept")
            async with running(settings) as up:
                first = await up.chat()
                small.text = "four"
                second = await up.chat()
        assert (first.headers["x-cascadia-stage"], first.headers["x-cascadia-score"]) == ("small", "100.00")
        assert second.headers["x-cascadia-stage"] == "large"

    run(main)


def entry(written: str, **tops: float) -> dict[str, Any]:
    others = [{"token": token, "logprob": p} for token, p in tops.items()]
    return {"token": written, "logprob": tops[written], "top_logprobs": others}


CHAT = json.dumps({"content": [entry("a", a=-0.1, b=-3.0), entry("c", d=-0.2, c=-2.0)]}).encode()
LEGACY = json.dumps(
    {
        "tokens": ["a", "c"],
        "token_logprobs": [-0.1, -2.0],
        "top_logprobs": [{"a": -0.1, "b": -3.0}, {"d": -0.2, "c": -2.0}],
    }
).encode()


@pytest.mark.parametrize("logprobs", [CHAT, LEGACY])
def test_both_forms_of_logprobs_give_the_same_certainty(logprobs: bytes) -> None:
    found = certainty_in([logprobs])
    assert (found.sum_logprob, found.mean_logprob, found.min_logprob) == pytest.approx((-2.1, -1.05, -2.0))
    margins = (math.exp(-0.1) - math.exp(-3.0), math.exp(-0.2) - math.exp(-2.0))
    assert found.mean_margin == pytest.approx(sum(margins) / 2)
    assert found.tokens == 2


@pytest.mark.parametrize(
    ("statistic", "points", "score"),
    [
        ("sum-logprob", (), 100 * math.exp(-2.1)),
        ("mean-logprob", (), 100 * math.exp(-1.05)),
        ("min-logprob", (), 100 * math.exp(-2.0)),
        ("sum-logprob", ((-10.0, 5.0), (-2.2, 40.0), (-2.0, 60.0)), 50.0),
        ("sum-logprob", ((-1.0, 30.0), (0.0, 90.0)), 30.0),
        ("sum-logprob", ((-30.0, 30.0), (-20.0, 90.0)), 90.0),
    ],
)
def test_a_statistic_becomes_a_score_by_itself_or_by_points(
    statistic: Any, points: Any, score: float
) -> None:
    gate = CertaintyGate(Examiner(Limits()), statistic, points)
    assert asyncio.run(gate.score("q", Choice("ac", logprobs=[CHAT]), 0.0)) == pytest.approx(score)

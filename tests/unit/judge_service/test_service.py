"""The judge's service: verdicts alone and together, what it refuses, and that nobody's leaving disturbs others."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from cascadia.judge_service.app import application
from cascadia.judge_service.batches import Batches, Busy
from cascadia_judge.embedding import Case, Verdict
from cascadia_judge.errors import BadVerdict

CERTAINTY = {"sum_logprob": -1.0, "mean_logprob": -0.5, "min_logprob": -0.7, "mean_margin": 0.5, "tokens": 2}


@dataclass
class CountingJudge:
    """Scores an answer by its length. Waits for `free` before it judges; keeps what it was given together."""

    free: threading.Event = field(default_factory=threading.Event)
    began: threading.Event = field(default_factory=threading.Event)
    batches: list[list[Case]] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=lambda: {"rows": 3})
    wants_certainty: bool = True
    digest: str = "a1"

    def head_for(self, case: Case) -> None:
        if case.answer is None:
            raise BadVerdict("judge", "cannot judge without an answer", "train it on rows without them")

    def scores(self, cases: Sequence[Case]) -> list[Verdict]:
        self.began.set()
        assert self.free.wait(60)
        self.batches.append(list(cases))
        if any(case.answer == "boom" for case in cases):
            raise MemoryError("no room")
        return [Verdict(float(len(case.answer or "")), 0.5, 7) for case in cases]


def ready() -> CountingJudge:
    judge = CountingJudge()
    judge.free.set()
    return judge


@asynccontextmanager
async def serving(judge: CountingJudge, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
    app = application(judge, **more)  # type: ignore[arg-type]
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://judge") as client:
            yield client


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_one_answer_and_many_get_their_verdicts_in_order() -> None:
    judge = ready()

    async def main() -> None:
        async with serving(judge) as client:
            one = await client.post(
                "/v1/score", json={"question": "q", "answer": "four", "certainty": CERTAINTY}
            )
            items = [{"question": "q", "answer": "x" * n, "stage": "small"} for n in (3, 1, 2)]
            many = await client.post("/v1/scores", json={"items": items})
            metrics = (await client.get("/metrics")).text
            version = (await client.get("/version")).json()
            health = await client.get("/health")
        assert one.json() == {"score": 4.0, "certainty": 0.5, "tokens": 7, "judge": "a1"}
        assert [v["score"] for v in many.json()["verdicts"]] == [3.0, 1.0, 2.0]
        assert "cascadia_judge_verdicts_total 4.0" in metrics
        assert "cascadia_judge_tokens_total 28.0" in metrics
        assert 'cascadia_judge_requests_total{status="200"} 2.0' in metrics
        assert (version["judge"], version["wants_certainty"]) == ({"rows": 3}, True)
        assert health.status_code == 200

    run(main())
    assert judge.batches[0][0].certainty is not None
    assert judge.batches[0][0].certainty.tokens == 2
    assert judge.batches[1][0].stage == "small"


def test_of_chat_messages_the_users_last_is_the_question() -> None:
    judge = ready()

    async def main() -> None:
        async with serving(judge) as client:
            messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
            await client.post("/v1/score", json={"question": messages, "answer": "x"})

    run(main())
    assert judge.batches[0][0].question == "b"


def test_what_waits_while_the_judge_is_busy_goes_to_it_together() -> None:
    judge = CountingJudge()

    async def main() -> None:
        batches = Batches(judge, at_once=4)  # type: ignore[arg-type]
        batches.start()
        asked = [asyncio.create_task(batches.verdicts([Case("q", "x" * n)])) for n in range(1, 8)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        judge.free.set()
        found = [(await task)[0].score for task in asked]
        await batches.stop()
        assert found == [float(n) for n in range(1, 8)]

    run(main())
    assert [len(batch) for batch in judge.batches] == [4, 3]


def test_who_leaves_takes_his_answers_out_of_the_queue() -> None:
    judge = CountingJudge()

    async def main() -> None:
        batches = Batches(judge, at_once=1)  # type: ignore[arg-type]
        batches.start()
        asked = [asyncio.create_task(batches.verdicts([Case("q", "x" * n)])) for n in (1, 2, 3)]
        while batches.waiting != 2:
            await asyncio.sleep(0)
        asked[1].cancel()
        judge.free.set()
        assert (await asked[0])[0].score == 1.0
        assert (await asked[2])[0].score == 3.0
        await batches.stop()

    run(main())
    assert [len(case.answer or "") for batch in judge.batches for case in batch] == [1, 3]


def test_a_full_queue_refuses_at_once_and_says_when_to_come_again() -> None:
    judge = CountingJudge()

    async def main() -> None:
        batches = Batches(judge, most_waiting=2, at_once=1)  # type: ignore[arg-type]
        batches.start()
        asked = [asyncio.create_task(batches.verdicts([Case("q", "x")]))]
        for waiting in (1, 0):
            while batches.waiting != waiting:
                await asyncio.sleep(0)
        asked += [asyncio.create_task(batches.verdicts([Case("q", "x")])) for _ in range(2)]
        while batches.waiting != 2:
            await asyncio.sleep(0)
        with pytest.raises(Busy):
            await batches.verdicts([Case("q", "x")])
        judge.free.set()
        assert len(await asyncio.gather(*asked)) == 3
        await batches.stop()

        async with serving(ready(), most_waiting=1) as client:
            items = [{"question": "q", "answer": "x"}] * 2
            refused = await client.post("/v1/scores", json={"items": items})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")

    run(main())


def test_a_batch_that_fails_is_told_to_those_in_it_alone() -> None:
    async def main() -> None:
        async with serving(ready()) as client:
            failed = await client.post("/v1/score", json={"question": "q", "answer": "boom"})
            after = await client.post("/v1/score", json={"question": "q", "answer": "fine"})
        assert (failed.status_code, after.json()["score"]) == (500, 4.0)

    run(main())


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"answer": "x"}, "question"),
        ({"question": "q", "answr": "x"}, "answr"),
        ({"question": "q", "answer": 3}, "answer"),
        ({"question": "q"}, "cannot judge without an answer"),
        ({"question": [], "answer": "x"}, "no message of a user"),
        ({"question": "q", "answer": "x", "certainty": CERTAINTY | {"tokens": 0}}, "tokens are out of range"),
        ({"question": "q", "answer": "x", "certainty": {"tokens": 1}}, "certainty.sum_logprob"),
    ],
)
def test_what_cannot_be_judged_is_refused_in_one_line(body: dict[str, Any], said: str) -> None:
    async def main() -> None:
        async with serving(ready()) as client:
            refused = await client.post("/v1/score", json=body)
        assert refused.status_code == 400
        assert said in refused.json()["error"]["message"]

    run(main())


def test_a_body_that_is_too_large_or_of_no_stated_length_is_not_read() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"question": "q", "answer": "x"}'

    async def main() -> None:
        async with serving(ready()) as client:
            large = await client.post("/v1/score", content=b" " * (8 * 2**20 + 1))
            endless = await client.post("/v1/score", content=chunks())
        assert (large.status_code, endless.status_code) == (413, 413)

    run(main())


def test_with_a_key_only_who_has_it_is_answered() -> None:
    async def main() -> None:
        async with serving(ready(), api_key="secret") as client:
            body = {"question": "q", "answer": "x"}
            statuses = [
                (await client.post("/v1/score", json=body, headers=headers)).status_code
                for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer secret"})
            ]
            assert statuses == [401, 401, 200]
            assert (await client.get("/health")).status_code == 200

    run(main())

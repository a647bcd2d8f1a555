"""Batches of hostile clients and odd engines: everyone gets an end, and nobody's leaving takes another's place."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from cascadia.router.openai.one_pass import answer_of
from cascadia.testing.engines import FakeEngine, send
from cascadia.testing.one_pass import classification, classifier
from cascadia.testing.routers import run, running, started, until
from tests.unit.router.replicas.test_batcher import SECTION, Slow, ask, greedy, settings


@pytest.mark.parametrize("part", [1, None, [], "text", {"index": 0}, {"index": "a,b"}, {}])
def test_whatever_an_engine_makes_of_a_part_the_client_has_an_end(part: Any) -> None:
    async def odd(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 200, json.dumps({"data": [part] * len(body["input"])}).encode())

    async def main() -> None:
        engine = FakeEngine(answer=odd)
        async with started(engine), running(settings([engine], greedy(), SECTION)) as router:
            async with asyncio.timeout(60):
                found = await ask(router, "text")
        assert found.status_code == (200 if isinstance(part, dict) else 502)
        assert found.json()

    run(main)


def test_a_part_is_numbered_whatever_stands_in_its_index() -> None:
    parts = [b'{"index":"a,b","probs":[1]}', b'{"index":7}', b'{"index":7,"probs":[1]}', b'{"index": [1,2]}']
    found = json.loads(answer_of(b"x", "m", parts, 1))["data"]
    assert [part["index"] for part in found] == [0, 1, 2, 3]


MIXED: list[list[Any]] = [
    ["a", 5],
    ["a", None],
    ["a", {}],
    [[], "a"],
    [5, "a"],
    [["a"]],
    [[[1]]],
    [None],
    [1.5],
]


def test_inputs_of_several_kinds_are_refused_before_others_share_a_batch_with_them() -> None:
    async def main() -> None:
        engine = classifier(lambda _: [0.6, 0.4])
        async with started(engine), running(settings([engine], greedy(), SECTION)) as router:
            for mixed in MIXED:
                body = {"model": "intent", "input": mixed}
                found = await router.client.post("/v1/classify", json=body)
                assert (found.status_code, found.json()["error"]["code"]) == (400, "invalid_type"), mixed
            assert engine.requests == []
            for inputs in ("a", ["a", "b"], [1, 2], [[1, 2], [3]]):
                body = {"model": "intent", "input": inputs}
                assert (await router.client.post("/v1/classify", json=body)).status_code == 200

    run(main)


def test_a_long_list_keeps_nobody_waiting() -> None:
    async def main() -> None:
        slow = Slow()
        async with started(slow.engine), running(settings([slow.engine], greedy(), SECTION)) as router:
            batcher = router.router.active_plan.batchers["intent"]
            first = ask(router, "0")
            await until(lambda: len(slow.batches) == 1)
            body = {"model": "intent", "input": ["x"] * 1024}
            long = asyncio.create_task(router.client.post("/v1/classify", json=body))
            await until(lambda: batcher.waiting == 1024)
            last = ask(router, "1")
            await until(lambda: batcher.waiting == 1025)
            slow.free.set()
            assert [(await one).status_code for one in (first, long, last)] == [200, 200, 200]
        assert ["1" in batch for batch in slow.batches].index(True) == 2
        assert sum(map(len, slow.batches)) == 1026

    run(main)


def test_a_list_that_never_fits_is_told_so() -> None:
    async def main() -> None:
        engine = classifier(lambda _: [0.6, 0.4])
        room = {"max_queue": 32}
        async with started(engine), running(settings([engine], greedy(), SECTION), **room) as router:
            for model in ("intent", "quick", "cascadia"):
                body = {"model": model, "input": ["x"] * 33}
                found = await router.client.post("/v1/classify", json=body)
                error = found.json()["error"]
                assert (found.status_code, error["code"], error["param"]) == (413, "too_many_inputs", "input")
                body["input"] = ["x"] * 32
                assert (await router.client.post("/v1/classify", json=body)).status_code == 200
        assert router.router.metrics.running == 0

    run(main)


def test_who_leaves_takes_nobodys_place_in_the_queue() -> None:
    """Lists with far deadlines, whose client goes at once, five times what the queue takes."""

    async def main() -> None:
        slow = Slow()
        room = {"max_queue": 256}
        async with (
            started(slow.engine),
            running(settings([slow.engine], greedy(), SECTION), **room) as router,
        ):
            batcher = router.router.active_plan.batchers["intent"]
            first = ask(router, "0")
            await until(lambda: len(slow.batches) == 1)
            for _ in range(5):
                body = {"model": "intent", "input": ["x"] * 256, "deadline_ms": 500_000}
                gone = asyncio.create_task(router.client.post("/v1/classify", json=body))
                await until(lambda: batcher.waiting == 256)
                gone.cancel()
                await until(lambda: batcher.waiting == 0)
            last = ask(router, "1")
            await until(lambda: batcher.waiting == 1)
            slow.free.set()
            assert [(await one).status_code for one in (first, last)] == [200, 200]
        assert slow.batches == [["0"], ["1"]]

    run(main)


@pytest.mark.parametrize(
    ("status", "workers", "most"),
    [
        (400, 1, 6),
        (401, 1, 1),
        (404, 1, 1),
        (404, 4, 8),
        (403, 1, 5),
        (500, 1, 5),
        (500, 4, 20),
        (422, 4, 40),
    ],
)
@pytest.mark.parametrize("model", ["intent", "cascadia"])
def test_an_engine_that_fails_at_everything_is_asked_few_times_for_a_list_whatever_its_length(
    status: int, workers: int, most: int, model: str
) -> None:
    async def no(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, status, b'{"error":{"message":"CUDA error of wombat"}}')

    async def main() -> None:
        engines = [FakeEngine(answer=no) for _ in range(workers)]
        policies = greedy(workers=workers)
        async with started(*engines), running(settings(engines, policies, SECTION)) as router:
            async with asyncio.timeout(60):
                found = await ask(router, [str(n) for n in range(500)], model)
            await until(lambda: bool(router.lines))
        stages = 2 if model == "cascadia" else 1
        assert sum(len(engine.requests) for engine in engines) <= most * stages
        assert found.status_code == (status if status in (400, 422) else 502), found.text
        line = router.lines[0]
        words = line.get("said") or line.get("steps", [{}])[-1].get("said")
        if status in (401, 404, 500):
            assert words == f"HTTP {status}: CUDA error of …"
            assert "CUDA" not in found.text

    run(main)


def test_a_batch_that_one_worker_has_the_wrong_key_for_is_answered_whole_by_another() -> None:
    async def no(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 401, b"{}")

    async def main() -> None:
        wrong, right = FakeEngine(answer=no), classifier(lambda _: [0.6, 0.4])
        policies = greedy(workers=2)
        async with started(wrong, right), running(settings([wrong, right], policies, SECTION)) as router:
            found = await ask(router, [str(n) for n in range(32)])
        assert found.status_code == 200
        assert [len(body["input"]) for body in (*wrong.requests, *right.requests)] == [32, 32]

    run(main)


def test_one_input_that_an_engine_falls_over_fails_alone() -> None:
    async def falls(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        texts = body["input"]
        rows = [[0.6, 0.4] for _ in texts]
        send(writer, *((500, b"{}") if "17" in texts else (200, classification(rows))))

    async def main() -> None:
        engine = FakeEngine(answer=falls)
        async with started(engine), running(settings([engine], greedy(), SECTION)) as router:
            found = await asyncio.gather(*(ask(router, str(n)) for n in range(33)))
        assert [one.status_code for one in found] == [502 if n == 17 else 200 for n in range(33)]

    run(main)


@pytest.mark.parametrize("model", ["intent", "quick", "cascadia"])
def test_who_waits_for_a_worker_that_a_new_plan_lacks_is_answered_by_those_it_has(model: str) -> None:
    async def main() -> None:
        gone, stays = Slow(), classifier(lambda _: [0.6, 0.4])
        async with started(gone.engine, stays), running(settings([gone.engine], greedy(), SECTION)) as up:
            first = ask(up, "0", model)
            await until(lambda: len(gone.batches) == 1)
            later = [ask(up, str(n), model) for n in range(1, 6)]
            batcher = up.router.active_plan.batchers["intent"]
            await until(lambda: batcher.waiting == 5)
            new = settings([stays], greedy(), SECTION)
            up.router.swap(replace(new, limits=up.router.settings.limits))
            gone.free.set()
            async with asyncio.timeout(60):
                found = await asyncio.gather(first, *later)
        assert [one.status_code for one in found] == [200] * 6
        assert gone.batches == [["0"]]
        asked = [text for body in stays.requests for text in body["input"]]
        assert {"1", "2", "3", "4", "5"} <= set(asked)

    run(main)


def test_a_batch_on_its_way_to_a_worker_that_a_new_plan_lacks_is_answered() -> None:
    async def main() -> None:
        gone, stays = (classifier(lambda _: [0.6, 0.4]) for _ in range(2))
        async with started(gone, stays), running(settings([gone], greedy(), SECTION)) as up:
            batcher = up.router.active_plan.batchers["intent"]
            new = replace(settings([stays], greedy(), SECTION), limits=up.router.settings.limits)
            send_ = batcher._send

            def sent(worker: int, batch: Any) -> None:
                send_(worker, batch)
                up.router.swap(new)

            batcher._send = sent  # type: ignore[method-assign]
            async with asyncio.timeout(60):
                assert (await ask(up, "0")).status_code == 200

    run(main)

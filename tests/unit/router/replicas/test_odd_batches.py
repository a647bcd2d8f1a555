"""Batches of hostile clients and odd engines: everyone gets an end, and nobody's leaving takes another's place."""

import asyncio
import json
from typing import Any

import pytest

from cascadia.router.openai.one_pass import answer_of
from cascadia.testing.engines import FakeEngine, send
from cascadia.testing.one_pass import classifier
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

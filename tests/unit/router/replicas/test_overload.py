"""What a stage does when there is more to do than it can: in turn, in time, or refused at the door."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from cascadia.router.settings.model import ReplicaSettings, StageSettings
from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import run, running, stages, until


def one_at_a_time(engine: FakeEngine) -> tuple[StageSettings]:
    (stage,) = stages(engine)
    return (replace(stage, replicas=(ReplicaSettings(engine.url, max_concurrency=1),)),)


class Gated:
    """An engine that answers when it is told to, with the request's own `k`."""

    def __init__(self) -> None:
        self.go = asyncio.Semaphore(0)
        self.engine = FakeEngine(answer=self._answer)

    async def _answer(self, engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await self.go.acquire()
        send(writer, 200, completion(str(body["k"])))


@pytest.mark.parametrize("by", ["body", "header"])
@pytest.mark.parametrize("model", ["small", "cascadia"])
def test_the_urgent_are_served_first_and_no_engine_is_told(by: str, model: str) -> None:
    async def main() -> None:
        gated = Gated()
        async with started(gated.engine), running(one_at_a_time(gated.engine)) as up:
            asking = []
            for k, priority in enumerate((0, 5, 0, -5)):
                given: dict[str, Any] = {"priority": priority}
                if by == "header":
                    given = {"headers": {"x-cascadia-priority": str(priority)}}
                asking.append(asyncio.create_task(up.chat(model, k=k, **given)))
                wait_queue = up.router.stages[0].wait_queue
                await until(
                    lambda k=k, wait_queue=wait_queue: len(gated.engine.requests) + len(wait_queue) == k + 1
                )
            for _ in asking:
                gated.go.release()
            assert {a.status_code for a in await asyncio.gather(*asking)} == {200}
        assert [request["k"] for request in gated.engine.requests] == [0, 3, 2, 1]
        assert all("priority" not in request for request in gated.engine.requests)

    run(main)


def test_engines_that_schedule_by_priority_are_told_it() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine):
            (stage,) = stages(engine)
            async with running((replace(stage, passes_priority=True),)) as up:
                await up.chat("small", priority=-3)
                await up.chat("cascadia", headers={"x-cascadia-priority": "4"})
                await up.chat("cascadia")
        assert [request.get("priority") for request in engine.requests] == [-3, 4, None]

    run(main)


@pytest.mark.parametrize("value", ["urgent", 1.5, True])
def test_a_priority_that_is_no_whole_number_is_refused(value: Any) -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with started(engine), running(stages(engine)) as up:
            for model in ("small", "cascadia"):
                answer = await up.chat(model, priority=value)
                assert answer.status_code == 400
                assert answer.json()["error"]["param"] == "priority"
                header = await up.chat(model, headers={"x-cascadia-priority": "1.5"})
                assert header.json()["error"]["param"] == "priority"

    run(main)


def test_in_a_full_queue_the_urgent_take_the_place_of_the_last() -> None:
    async def main() -> None:
        gated = Gated()
        async with started(gated.engine), running(one_at_a_time(gated.engine), max_queue=1) as up:
            running_now = asyncio.create_task(up.chat("small", k=0))
            await gated.engine.arrived.wait()
            wait_queue = up.router.stages[0].wait_queue
            waits = asyncio.create_task(up.chat("small", k=1))
            await until(lambda: len(wait_queue) == 1)
            assert (await up.chat("small", k=2)).status_code == 429
            urgent = asyncio.create_task(up.chat("small", k=3, priority=-1))
            displaced = await waits
            assert displaced.status_code == 429
            assert int(displaced.headers["retry-after"]) >= 1
            gated.go.release()
            gated.go.release()
            assert [a.status_code for a in await asyncio.gather(running_now, urgent)] == [200, 200]

    run(main)


def test_who_would_wait_in_vain_is_refused_at_the_door() -> None:
    async def main() -> None:
        gated = Gated()
        async with started(gated.engine), running(one_at_a_time(gated.engine)) as up:
            admission = up.router.stages[0].admission
            asking = [asyncio.create_task(up.chat("small", k=k)) for k in range(4)]
            await until(lambda: len(admission.wait_queue) == 3)
            # One ends every 10 s, as far as is known: three are ahead of whoever comes.
            admission._pace.gap_s = 10.0
            refused = await up.chat("small", k=9, deadline_ms=20_000)
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) == 30
            patient = asyncio.create_task(up.chat("small", k=4, deadline_ms=50_000))
            await until(lambda: len(admission.wait_queue) == 4)
            for _ in range(5):
                gated.go.release()
            answers = await asyncio.gather(*asking, patient)
        assert [a.status_code for a in answers] == [200] * 5

    run(main)


def test_who_has_waited_too_long_to_be_answered_in_time_is_not_sent() -> None:
    async def main() -> None:
        gated = Gated()
        async with started(gated.engine), running(one_at_a_time(gated.engine)) as up:
            stage = up.router.stages[0]
            first = asyncio.create_task(up.chat("small", k=0))
            await gated.engine.arrived.wait()
            late = asyncio.create_task(up.chat("small", k=1, deadline_ms=15_000))
            last = asyncio.create_task(up.chat("small", k=2))
            await until(lambda: len(stage.wait_queue) == 2)
            stage.admission.times.typical_s = 60.0
            gated.go.release()
            gated.go.release()
            answers = await asyncio.gather(first, late, last)
        assert [a.status_code for a in answers] == [200, 504, 200]
        assert [request["k"] for request in gated.engine.requests] == [0, 2]

    run(main)


def test_an_engine_that_says_it_is_full_is_left_alone_and_its_requests_wait() -> None:
    async def main() -> None:
        full = [3]

        async def busy(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
            full[0] -= 1
            if full[0] >= 0:
                send(writer, 429, b'{"error": {"message": "busy"}}')
            else:
                send(writer, 200, completion("now"))

        engine = FakeEngine(answer=busy)
        async with started(engine), running(stages(engine)) as up:
            answers = await asyncio.gather(*(up.chat("small") for _ in range(3)))
            assert [a.status_code for a in answers] == [200] * 3
            replica = up.router.stages[0].replicas[0]
            assert (replica.rest_s, replica.breaker.failures) == (0.0, 0)

    run(main)


def test_a_rest_that_an_engine_asks_for_is_told_to_who_cannot_wait_so_long() -> None:
    async def busy(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 429, b'{"error": {"message": "busy"}}', more="retry-after: 20\r\n")

    async def main() -> None:
        engine = FakeEngine(answer=busy)
        async with started(engine), running(stages(engine), queue_s=5.0) as up:
            first = await up.chat("small")
            second = await up.chat("small")
        assert (first.status_code, second.status_code) == (429, 429)
        assert 15 <= int(first.headers["retry-after"]) <= 20
        assert second.json()["error"]["code"] == "overloaded"
        assert len(engine.requests) == 1

    run(main)


def test_what_was_lost_with_a_replica_is_sent_again_whatever_the_budget() -> None:
    many = 100

    async def never(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await engine.left.wait()

    async def main() -> None:
        dying, good = FakeEngine(answer=never), FakeEngine("fine")
        async with started(dying, good):
            (stage,) = stages([dying, good])
            async with running((replace(stage, balancing="round-robin"),), breaker_failures=1000) as up:
                asking = [asyncio.create_task(up.chat("small")) for _ in range(many)]
                await until(lambda: len(dying.requests) == many // 2)
                await dying.stop()
                answers = await asyncio.gather(*asking)
        assert [a.status_code for a in answers] == [200] * many
        assert json.loads(answers[0].content)["choices"][0]["message"]["content"] == "fine"

    run(main)

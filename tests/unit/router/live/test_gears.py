"""Gears of a router that serves: chosen at a request's arrival, kept to its end, shown to whoever asked."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cascadia.router.access.keys import Keyring
from cascadia.router.live.gears import LOOK_S
from cascadia.router.settings.model import GearSettings, JudgeSettings, KeySettings, RouterSettings
from cascadia.testing.engines import Answer, FakeEngine, completion, send, started
from cascadia.testing.routers import QUICK, Running, ScriptedGate, run, running, stages, until
from tests.unit.router.access.test_keys import made

HEAVY = GearSettings(0, 3, ("small", "large"), {"small": 60.0})
LIGHT = GearSettings(1, None, ("small",))
LIGHTEST = replace(LIGHT, number=0)
NO_GATE = ScriptedGate({})
SCORES = ScriptedGate({"poor": 20.0})
SCORED = JudgeSettings("certainty")


def geared(
    *engines: FakeEngine | list[FakeEngine], gears: Any = (HEAVY, LIGHT), **more: Any
) -> RouterSettings:
    """Stages that accept nothing of their own: the gears say what is enough."""
    told = stages(*engines, thresholds=(101.0,) * (len(engines) - 1))
    return RouterSettings(told, SCORED, gears=gears, health=QUICK, **more)


def held(go: asyncio.Event) -> Answer:
    """Answers when `go` is set."""

    async def answer(engine: FakeEngine, _: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await go.wait()
        send(writer, 200, completion(engine.text))

    return answer


@asynccontextmanager
async def in_gear(settings: RouterSettings, gate: ScriptedGate, **more: Any) -> AsyncIterator[Running]:
    """A router that has seen that all of its replicas serve."""
    async with running(settings, gate, **more) as up:
        gears = up.router.gears
        assert gears is not None
        await until(lambda: gears.capacity == 1.0)
        yield up


async def gears_of(up: Running, requests: int, **more: Any) -> list[str]:
    answers = await asyncio.gather(*(up.chat(**more) for _ in range(requests)))
    assert {answer.status_code for answer in answers} == {200}
    return [answer.headers["x-cascadia-gear"] for answer in answers]


def test_each_request_has_the_gear_of_what_it_meets_and_says_so() -> None:
    async def main() -> None:
        go = asyncio.Event()
        small, large = FakeEngine("poor", held(go)), FakeEngine("good")
        gate = ScriptedGate({"poor": 20.0})
        async with started(small, large), in_gear(geared(small, large), gate) as up:
            asked = asyncio.create_task(gears_of(up, 6))
            await until(lambda: len(small.requests) == 6)
            go.set()
            # The first four meet 0 to 3 others.
            assert sorted(await asked) == ["0", "0", "0", "0", "1", "1"]
            # Who came in the light gear was never judged, and is content with the small stage.
            assert len(large.requests) == 4
            assert len(gate.seen) == 4
            await until(lambda: len(up.lines) >= 6)
            assert sorted(line["gear"] for line in up.lines) == [0, 0, 0, 0, 1, 1]

    run(main)


def test_replicas_that_still_start_with_the_router_make_no_gear_light() -> None:
    async def main() -> None:
        go = asyncio.Event()
        small, large, later = (
            FakeEngine("poor", held(go)),
            FakeEngine("good"),
            FakeEngine("good", healthy=False),
        )
        async with started(small, large, later):
            told = geared(small, [large, later])
            async with running(told, ScriptedGate({"poor": 80.0}), all_ready=False) as up:
                await until(lambda: all(stage.replicas[0].state == "ready" for stage in up.router.stages))
                # Several looks at the replicas pass; with half of a stage lost the third would meet too much.
                await asyncio.sleep(4 * LOOK_S)
                assert up.router.gears is not None
                assert up.router.gears.capacity == 1.0
                asked = asyncio.create_task(gears_of(up, 3))
                await until(lambda: len(small.requests) == 3)
                go.set()
                assert await asked == ["0", "0", "0"]

    run(main)


@pytest.mark.parametrize(("load", "capacity"), [(None, 0.5), (0.8, 0.5), (0.5, 0.8), (0.2, 1.0)])
def test_a_lost_replica_counts_by_the_load_that_its_stage_was_planned_for(
    load: float | None, capacity: float
) -> None:
    """Half of a stage that is to be a fifth full leaves it emptier than the one that is to be four fifths full."""

    async def main() -> None:
        small, spare, large = FakeEngine("poor"), FakeEngine("poor"), FakeEngine("good")
        async with started(small, spare, large):
            told = geared([small, spare], large)
            loads = {"small": load, "large": None if load is None else 0.8}
            told = replace(
                told, stages=tuple(replace(stage, load=loads[stage.name]) for stage in told.stages)
            )
            async with in_gear(told, NO_GATE) as up:
                gears = up.router.gears
                assert gears is not None
                up.router.stages[0].replicas[1].state = "draining"
                gears.look()
                assert gears.capacity == pytest.approx(capacity)

    run(main)


@pytest.mark.parametrize(("elsewhere", "capacity"), [(True, 1.0), (False, 1e-3)])
def test_a_lost_api_makes_no_gear_light(elsewhere: bool, capacity: float) -> None:
    """A lighter gear may send it more; a stage of our own that is lost leaves its work to others."""

    async def main() -> None:
        small, large = FakeEngine("poor"), FakeEngine("good")
        async with started(small, large):
            told = geared(small, large)
            own, api = told.stages
            path = None if elsewhere else "/health"
            api = replace(api, replicas=tuple(replace(r, health_path=path) for r in api.replicas))
            async with in_gear(replace(told, stages=(own, api)), NO_GATE) as up:
                gears = up.router.gears
                assert gears is not None
                up.router.stages[1].replicas[0].breaker.failures = 1_000
                gears._known_s = 0.0
                gears.look()
                assert gears.capacity == pytest.approx(capacity)

    run(main)


@pytest.mark.parametrize(("planned_share", "capacity"), [(None, 1.0), (1.0, 2.0), (4.0, 0.5)])
def test_more_replicas_than_were_planned_for_widen_the_gears_and_fewer_narrow_them(
    planned_share: float | None, capacity: float
) -> None:
    """Who scales the stages lists as many replicas as there are: their plan's number says what gears are for."""

    async def main() -> None:
        small, spare = FakeEngine("poor"), FakeEngine("poor")
        large, other = FakeEngine("good"), FakeEngine("good")
        async with started(small, spare, large, other):
            told = geared([small, spare], [large, other])
            told = replace(
                told, stages=tuple(replace(stage, planned_share=planned_share) for stage in told.stages)
            )
            async with running(told, NO_GATE) as up:
                gears = up.router.gears
                assert gears is not None
                for _ in range(2):  # while it starts, and after
                    gears.look()
                    assert gears.capacity == pytest.approx(capacity)
                    gears._known_s = 0.0

    run(main)


def test_requests_straight_to_a_stage_are_load_and_have_no_gear() -> None:
    async def main() -> None:
        go = asyncio.Event()
        small, large = FakeEngine("poor"), FakeEngine("good", held(go))
        async with started(small, large), in_gear(geared(small, large), ScriptedGate({"poor": 20.0})) as up:
            straight = [asyncio.create_task(up.chat("large")) for _ in range(4)]
            await until(lambda: len(large.requests) == 4)
            assert await gears_of(up, 1) == ["1"]
            go.set()
            for answer in await asyncio.gather(*straight):
                assert "x-cascadia-gear" not in answer.headers

    run(main)


@pytest.mark.parametrize(
    ("limits", "stages_asked"),
    [
        ({}, ["small"]),
        ({"min_stage": "medium"}, ["medium"]),
        ({"max_stage": "small"}, ["small"]),
        ({"quality_min": 50}, ["small", "medium", "large"]),
        ({"quality_min": 50, "max_stage": "medium"}, ["small", "medium"]),
    ],
)
def test_a_requests_own_limits_stand_above_its_gear(limits: dict[str, Any], stages_asked: list[str]) -> None:
    async def main() -> None:
        engines = {"small": FakeEngine("poor"), "medium": FakeEngine("fair"), "large": FakeEngine("good")}
        gate = ScriptedGate({"poor": 20.0, "fair": 40.0})
        gears = (LIGHTEST,)
        async with started(*engines.values()), in_gear(geared(*engines.values(), gears=gears), gate) as up:
            assert (await up.chat(**limits)).status_code == 200
            assert [name for name, engine in engines.items() if engine.requests] == stages_asked

    run(main)


@pytest.mark.parametrize(
    ("gear", "max_stage", "answers"), [("large", "medium", "medium"), ("large", "small", "small")]
)
def test_a_stage_below_the_gear_answers_where_the_request_goes_no_further(
    gear: str, max_stage: str, answers: str
) -> None:
    async def main() -> None:
        three = [FakeEngine("poor"), FakeEngine("fair"), FakeEngine("good")]
        async with started(*three):
            told = geared(*three, gears=(replace(LIGHTEST, stages=(gear,)),))
            async with in_gear(told, ScriptedGate({})) as up:
                answer = await up.chat(max_stage=max_stage)
                assert answer.headers["x-cascadia-stage"] == answers

    run(main)


def test_another_stage_answers_where_none_of_the_gears_serves() -> None:
    async def main() -> None:
        small, large = FakeEngine("poor"), FakeEngine("good")
        async with started(small, large), in_gear(geared(small, large, gears=(LIGHTEST,)), NO_GATE) as up:
            await small.stop()
            # At first nobody knows, and the request finds out; then the replica is known to be down.
            assert (await up.chat()).headers["x-cascadia-stage"] == "large"
            await until(lambda: not up.router.stages[0].ready)
            answer = await up.chat()
            assert answer.headers["x-cascadia-stage"] == "large"
            assert answer.headers["x-cascadia-attempts"] == "1"

    run(main)


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_too_long_for_the_gears_stages_goes_on_to_a_larger_one(stream: bool) -> None:
    async def refuses(_: FakeEngine, __: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 400, b'{"error": {"message": "maximum context length is 5"}}')

    async def main() -> None:
        small, large = FakeEngine("poor", refuses), FakeEngine("good")
        async with started(small, large), in_gear(geared(small, large, gears=(LIGHTEST,)), NO_GATE) as up:
            answer = await up.chat(stream=stream)
            assert answer.status_code == 200
            assert answer.headers["x-cascadia-stage"] == "large"

    run(main)


def test_a_key_has_a_lightest_gear_whatever_the_load_or_pin() -> None:
    async def main() -> None:
        key, header = made("gold")
        gold = Keyring([replace(key, max_gear=0)])
        small, large = FakeEngine("poor"), FakeEngine("good")
        async with started(small, large):
            told = geared(small, large, keys=KeySettings(Path("keys.json")))
            async with in_gear(told, SCORES, keyring=gold) as up:
                gears = up.router.gears
                assert gears is not None
                gears.pin(1)
                answer = await up.chat(headers=header)
            assert (answer.headers["x-cascadia-gear"], answer.headers["x-cascadia-stage"]) == ("0", "large")

    run(main)


@pytest.mark.parametrize(("then", "statuses"), [("queue", {200}), ("refuse", {200, 429})])
def test_who_would_have_to_wait_in_the_lightest_gear_waits_or_is_refused(
    then: Any, statuses: set[int]
) -> None:
    async def main() -> None:
        go = asyncio.Event()
        small, large = FakeEngine("poor", held(go)), FakeEngine("good")
        async with started(small, large):
            told = geared(small, large, gears=(LIGHTEST,), when_overloaded=then)
            one = tuple(
                replace(s, replicas=(replace(s.replicas[0], max_concurrency=2),)) for s in told.stages
            )
            async with in_gear(replace(told, stages=one), NO_GATE) as up:
                first = [asyncio.create_task(up.chat()) for _ in range(2)]
                await until(lambda: len(small.requests) == 2)
                third = asyncio.create_task(up.chat())
                await until(lambda: third.done() or len(up.router.stages[0].wait_queue) == 1)
                go.set()
                assert {(await one).status_code for one in (*first, third)} == statuses
                text = (await up.client.get("/metrics")).text
                assert ('escalated_total{reason="overloaded",stage="small"} 1.0' in text) == (429 in statuses)

    run(main)


def test_a_plan_that_comes_swaps_ladders_and_who_is_under_way_keeps_its_gear() -> None:
    async def main() -> None:
        go = asyncio.Event()
        small, large = FakeEngine("poor", held(go)), FakeEngine("good")
        async with started(small, large), in_gear(geared(small, large), ScriptedGate({"poor": 20.0})) as up:
            before = asyncio.create_task(gears_of(up, 2))
            await until(lambda: len(small.requests) == 2)
            light = (GearSettings(0, 1, ("small",)), LIGHT)
            up.router.swap(replace(up.router.settings, gears=light))
            after = asyncio.create_task(gears_of(up, 2))
            await until(lambda: len(small.requests) == 4)
            go.set()
            assert (await before, await after) == (["0", "0"], ["1", "1"])
            # Those of before went on to the large stage, as their own ladder has it.
            assert len(large.requests) == 2

    run(main)

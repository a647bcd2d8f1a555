"""A router whose load came and went, for a look at its page."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cascadia.router.settings.model import GearSettings, JudgeSettings, RouterSettings
from cascadia.testing.engines import Answer, FakeEngine, completion, send, started
from cascadia.testing.routers import QUICK, Running, ScriptedGate, running, stages, until

LADDER = (
    GearSettings(0, 6, ("small", "large"), {"small": 60.0}),
    GearSettings(1, 14, ("small", "large"), {"small": 20.0}),
    GearSettings(2, None, ("small",)),
)
CROWDS = (2, 4, 4, 9, 12, 20, 24, 24, 18, 11, 8, 4, 3, 2)


def held(go: asyncio.Event) -> Answer:
    """Answers while `go` is set."""

    async def answer(engine: FakeEngine, _: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await go.wait()
        send(writer, 200, completion(engine.text))

    return answer


@asynccontextmanager
async def burst() -> AsyncIterator[Running]:
    """A burst behind it; half of the large stage's replicas have gone since."""
    go = asyncio.Event()
    small, large = FakeEngine("poor", held(go)), [FakeEngine("good") for _ in range(2)]
    async with started(small, *large):
        told = RouterSettings(
            stages([small], large, thresholds=(60.0,)), JudgeSettings("certainty"), gears=LADDER, health=QUICK
        )
        async with running(told, ScriptedGate({"poor": 30.0})) as up:
            page, gears = up.router.observers.page, up.router.gears
            assert page is not None
            assert gears is not None
            await until(lambda: gears.capacity == 1.0)
            for crowd in CROWDS:
                go.clear()
                crowded = [asyncio.create_task(up.chat()) for _ in range(crowd)]
                await until(lambda crowd=crowd: up.router.metrics.running >= crowd)
                # What is in hand is seen at a tick: so it comes while the crowd is there.
                page.history.tick()
                go.set()
                await asyncio.gather(*crowded)
            await large[1].stop()
            await until(lambda: gears.capacity == 0.5)
            yield up

"""Whatever a router does: a plan that changes, clients or an engine that go, and its own end lose nobody. Each request
has one answer, and nothing is left behind."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from cascadia.router.access.keys import KeyLimits, Keyring
from cascadia.router.settings.model import (
    JudgeSettings,
    KeySettings,
    RouterSettings,
)
from cascadia.testing.engines import FakeEngine, completion, send, started, stream
from cascadia.testing.one_pass import classification
from cascadia.testing.routers import QUICK, Running, ScriptedGate, run, running, stages, until
from tests.unit.router.access.test_keys import made
from tests.unit.router.cascade.test_thinking import EXITS, thinks
from tests.unit.router.live.test_gears import HEAVY, LIGHT
from tests.unit.router.replicas.test_batcher import SECTION, greedy
from tests.unit.router.replicas.test_batcher import settings as in_batches
from tests.unit.router.replicas.test_matching import LINES

REQUESTS = 12
PLACES = 2
"""Of an engine: most of the requests wait."""


@dataclass
class Scene:
    """Two small engines and a large one, which answer when `go` is set."""

    go: asyncio.Event = field(default_factory=asyncio.Event)
    engines: list[FakeEngine] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engines = [FakeEngine(text, answer=self._answer) for text in ("poor", "poor", "good")]

    async def _answer(self, engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await self.go.wait()
        if "input" in body:
            send(writer, 200, classification([[0.6, 0.4] for _ in body["input"]]))
        elif body.get("stream"):
            stream(writer, engine.text, body)
        elif body["model"] == "thinker":
            await thinks(engine, body, writer)
        else:
            send(writer, 200, completion(engine.text))

    def stages(self, **small: Any) -> RouterSettings:
        first, last = stages(self.engines[:2], self.engines[2], thresholds=(50.0,))
        first = replace(first, replicas=tuple(replace(r, max_concurrency=PLACES) for r in first.replicas))
        return RouterSettings((replace(first, **small), last), JudgeSettings("certainty"), health=QUICK)

    def unequal(self, balancing: str) -> RouterSettings:
        settings = self.stages(balancing=balancing, latency_max_s=60.0)
        first, last = settings.stages
        kinds = zip(first.replicas, ("fast", "slow"), strict=True)
        timed = tuple(replace(r, kind=kind, latency=LINES[kind]) for r, kind in kinds)
        return replace(settings, stages=(replace(first, replicas=timed), last))


Feature = Callable[[Scene, Path], RouterSettings]


def budgets(scene: Scene, folder: Path) -> RouterSettings:
    found = scene.stages()
    priced = tuple(replace(stage, price=(1.0, 1.0)) for stage in found.stages)
    return replace(found, stages=priced, keys=KeySettings(folder / "keys.json"))


FEATURES: dict[str, tuple[Feature, dict[str, Any]]] = {
    "held answers": (lambda s, _: s.stages(), {"stream": True}),
    "a stage's streams": (lambda s, _: s.stages(), {"stream": True, "model": "small"}),
    "matching": (lambda s, _: s.unequal("matching"), {"model": "small"}),
    "earliest finish": (lambda s, _: s.unequal("earliest-finish"), {"model": "small"}),
    "gears": (lambda s, _: replace(s.stages(), gears=(HEAVY, LIGHT)), {}),
    "exits": (lambda s, _: s.stages(model="thinker", exits=EXITS), {}),
    "the playground": (lambda s, _: s.stages(), {"headers": {"x-cascadia-explain": "1"}}),
    "budgets": (budgets, {}),
    "batches": (lambda s, _: in_batches(s.engines[:2], greedy(), SECTION), {"model": "intent"}),
    "a cascade in batches": (lambda s, _: in_batches(s.engines[:2], greedy(), SECTION), {}),
}


async def asked(up: Running, **more: Any) -> httpx.Response:
    if up.router.active_plan.batchers:
        body = {"model": more.get("model", "cascadia"), "input": ["one", "two"]}
        return await up.client.post("/v1/classify", json=body)
    return await up.chat(**more)


async def another_plan(up: Running, scene: Scene, asking: list["asyncio.Task[httpx.Response]"]) -> None:
    """One without any of it, and the one before again."""
    before = up.router.active_plan.settings
    plain = tuple(
        replace(stage, balancing="least-outstanding", exits=(), threshold=0.0) for stage in before.stages
    )
    up.router.swap(replace(before, stages=plain, gears=(), revision="plain"))
    up.router.swap(before)


async def an_engine_dies(up: Running, scene: Scene, asking: list["asyncio.Task[httpx.Response]"]) -> None:
    await scene.engines[0].stop()


async def clients_go(up: Running, scene: Scene, asking: list["asyncio.Task[httpx.Response]"]) -> None:
    for task in asking[::3]:
        task.cancel()
    await until(lambda: up.router.metrics.running == REQUESTS - len(asking[::3]))


async def the_end(up: Running, scene: Scene, asking: list["asyncio.Task[httpx.Response]"]) -> None:
    up.server.stop()


EVENTS: list[Callable[..., Awaitable[None]]] = [another_plan, clients_go, an_engine_dies, the_end]


async def through(
    event: Callable[..., Awaitable[None]], up: Running, scene: Scene, request: dict[str, Any]
) -> list[int]:
    """What became of requests that were under way, served and waiting, when it happened."""
    scene.go.clear()
    for engine in scene.engines:
        engine.requests.clear()
    asking = [asyncio.create_task(asked(up, **request)) for _ in range(REQUESTS)]
    await until(lambda: up.router.metrics.running == REQUESTS)
    await until(lambda: any(engine.requests for engine in scene.engines))
    await event(up, scene, asking)
    scene.go.set()
    statuses = []
    async with asyncio.timeout(60):
        for task in asking:
            with suppress(asyncio.CancelledError):
                answer = await task
                statuses.append(answer.status_code)
                assert not request.get("stream") or answer.text.count("data: [DONE]") == 1
    await until(lambda: up.router.metrics.running == 0)
    for stage in up.router.stages:
        assert not stage.admission.wait_queue.tickets
        assert all(replica.running == 0 for replica in stage.replicas)
    assert all(batcher.waiting == 0 for batcher in up.router.active_plan.batchers.values())
    return statuses


@pytest.mark.long(in_ci=5)
@pytest.mark.parametrize("name", list(FEATURES))
def test_nobody_is_lost_whatever_is_under_way(name: str, tmp_path: Path) -> None:
    async def main() -> None:
        scene, (feature, request) = Scene(), FEATURES[name]
        key, header = made(limits=KeyLimits(usd_per_month=1000.0))
        request = {**request, "headers": {**header, **request.get("headers", {})}}
        async with started(*scene.engines):
            settings = feature(scene, tmp_path)
            keyring = Keyring([key]) if settings.keys else None
            gate = ScriptedGate({"poor": 20.0, "good": 90.0, "trial 4": 85.0})
            told = []
            async with running(settings, gate, keyring=keyring) as up:
                for event in EVENTS:
                    told += await through(event, up, scene, request)
        gone = len(range(0, REQUESTS, 3))
        assert told == [200] * (REQUESTS * len(EVENTS) - gone)
        logged = [line["status"] for line in up.lines if "status" in line]
        assert sorted(logged) == sorted([*told, *[499] * gone])

    run(main)

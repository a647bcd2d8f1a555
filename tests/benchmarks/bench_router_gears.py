"""Gears in a router before fake engines: what choosing one costs, what a lost half of a stage costs with and without,
and that nothing is lost or served under two while they are switched.

    python -m pytest -s tests/benchmarks/bench_router_gears.py
"""

import asyncio
import random
from collections import Counter
from dataclasses import replace
from time import monotonic, process_time
from types import SimpleNamespace
from typing import Any

import pytest

from cascadia.router.live.gears import Gears
from cascadia.router.settings.model import GearSettings, JudgeSettings, ReplicaSettings, RouterSettings
from cascadia.router.telemetry.metrics import Metrics
from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import QUICK, Running, ScriptedGate, run, running, stages, until

SLO_S = 2.4
RATE_RPS = 14.0
LOSS_AT_S, END_S = 5.0, 30.0
GATE = ScriptedGate({"fine": 90.0, "poor": 20.0})


def test_choosing_a_gear_takes_less_than_a_microsecond_of_cpu() -> None:
    metrics = Metrics()
    told = tuple(
        replace(stage, replicas=(ReplicaSettings("http://h"),))
        for stage in stages(FakeEngine(), FakeEngine())
    )
    ladder = tuple(GearSettings(i, 10.0 * (i + 1) if i < 7 else None, ("small",)) for i in range(8))
    here: Any = [SimpleNamespace(replicas=[])] * 2
    load: Any = SimpleNamespace(alike=1, others=0)
    gears = Gears(RouterSettings(told, None, gears=ladder), here, load, metrics)
    times = 200_000
    cheapest = min(_seconds(gears, metrics, times) for _ in range(5)) / times
    print(f"\na gear of eight: {1e6 * cheapest:.2f} us of CPU")
    assert cheapest < 1e-6


def _seconds(gears: Gears, metrics: Metrics, times: int) -> float:
    """CPU time, less that of the loop itself."""
    began_s = process_time()
    for number in range(times):
        metrics.running = (7 * number) % 100
    middle_s = process_time()
    for number in range(times):
        metrics.running = (7 * number) % 100
        gears.arrival(None)
    return process_time() - middle_s - (middle_s - began_s)


class Fleet:
    """Four replicas a stage with three places each; half of the small stage's answers are poor."""

    def __init__(self) -> None:
        self.small = [FakeEngine(answer=self._small) for _ in range(4)]
        self.large = [FakeEngine(answer=self._large) for _ in range(4)]
        self._answers = 0

    @property
    def engines(self) -> list[FakeEngine]:
        return [*self.small, *self.large]

    def settings(self, *gears: GearSettings) -> RouterSettings:
        told = stages(self.small, self.large, thresholds=(50.0,))
        three = tuple(
            replace(stage, replicas=tuple(replace(r, max_concurrency=3) for r in stage.replicas))
            for stage in told
        )
        return RouterSettings(three, JudgeSettings("certainty"), gears=gears, health=QUICK)

    async def _small(self, _: FakeEngine, __: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self._answers += 1
        text = "fine" if self._answers % 2 else "poor"
        await asyncio.sleep(0.4)
        send(writer, 200, completion(text))

    async def _large(self, _: FakeEngine, __: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(1.2)
        send(writer, 200, completion("good"))


HEAVY = GearSettings(0, 24, ("small", "large"), {"small": 50.0})
LIGHT = GearSettings(1, None, ("small",))


async def after_a_loss(*gears: GearSettings, blind: bool = False) -> tuple[float, float]:
    """Attained share, and share of good answers, of what came after half of the large stage was lost. `blind`: gears do
    not see what is lost."""
    fleet = Fleet()
    outcomes: list[tuple[float, bool, bool]] = []
    async with started(*fleet.engines), running(fleet.settings(*gears), GATE) as up:
        seen = up.router.gears
        if seen is not None:
            await until(lambda: seen.capacity == 1.0)
        if seen is not None and blind:
            await up.router.gear_watch.stop()
        rng, began_s, asked = random.Random(5), monotonic(), []
        at_s, lost = 0.0, False
        while (at_s := at_s + rng.expovariate(RATE_RPS)) < END_S:
            await asyncio.sleep(max(0.0, at_s - (monotonic() - began_s)))
            if not lost and at_s >= LOSS_AT_S:
                lost = True
                await asyncio.gather(*(engine.stop() for engine in fleet.large[:2]))
            asked.append(asyncio.create_task(_one(up, at_s, outcomes)))
        await asyncio.gather(*asked)
    late = [one for one in outcomes if one[0] >= LOSS_AT_S]
    return sum(one[1] for one in late) / len(late), sum(one[2] for one in late) / len(late)


async def _one(up: Running, at_s: float, outcomes: list[tuple[float, bool, bool]]) -> None:
    began_s = monotonic()
    answer = await up.chat()
    in_time = answer.status_code == 200 and monotonic() - began_s <= SLO_S
    outcomes.append((at_s, in_time, b"poor" not in answer.content))


def test_half_of_a_stage_is_lost_under_load() -> None:
    async def main() -> None:
        found = {
            "no gears": await after_a_loss(),
            "gears that do not see it": await after_a_loss(HEAVY, LIGHT, blind=True),
            "gears": await after_a_loss(HEAVY, LIGHT),
        }
        print()
        for name, (attained, good) in found.items():
            print(f"{name}: {100 * attained:.1f} % within {SLO_S} s, {100 * good:.1f} % good answers")
        assert found["gears"][0] > found["no gears"][0] + 0.2
        assert found["gears"][0] > found["gears that do not see it"][0]

    run(main)


@pytest.mark.parametrize(("requests", "switches"), [(5_000, 500)])
def test_nothing_is_lost_or_under_two_gears_while_they_are_switched(requests: int, switches: int) -> None:
    """Every request is held to its own gear by what was asked for it: its text is its number, which engines keep."""

    async def main() -> None:
        asked: dict[str, list[str]] = {}

        def by(name: str, text: str) -> Any:
            async def answer(_: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
                asked.setdefault(body["user"], []).append(name)
                await asyncio.sleep(0.001)
                send(writer, 200, completion(text))

            return answer

        small, large = FakeEngine(answer=by("small", "poor")), FakeEngine(answer=by("large", "good"))
        async with started(small, large):
            told = stages(small, large, thresholds=(50.0,))
            ladder = (replace(HEAVY, max_in_flight=1000.0), LIGHT)
            settings = RouterSettings(told, JudgeSettings("certainty"), gears=ladder, health=QUICK)
            async with running(settings, GATE) as up:
                found = await _through_switches(up, requests, switches)
                switched = up.router.metrics.gear_switches.value
        lost = requests - sum(status == 200 for status, _, _ in found.values())
        whole = {"0": ["small", "large"], "1": ["small"]}
        mixed = [user for user, (_, gear, _) in found.items() if asked[user] != whole[gear]]
        gears = Counter(gear for _, gear, _ in found.values())
        print(
            f"\n{requests} requests, {switched:.0f} switches: {lost} lost, {len(mixed)} under two gears, {gears}"
        )
        assert (lost, mixed) == (0, [])
        assert switched >= switches
        assert min(gears.values()) > requests / 10

    run(main)


async def _through_switches(up: Running, requests: int, switches: int) -> dict[str, tuple[int, str, str]]:
    found: dict[str, tuple[int, str, str]] = {}
    gears = up.router.gears
    assert gears is not None
    numbers = iter(range(requests))
    each = requests // switches

    async def client() -> None:
        for number in numbers:
            if number % each == 0:
                gears.pin((number // each + 1) % 2)
            answer = await up.chat(user=str(number))
            headers = answer.headers
            found[str(number)] = answer.status_code, headers["x-cascadia-gear"], headers["x-cascadia-stage"]

    await until(lambda: gears.capacity == 1.0)
    await asyncio.gather(*(client() for _ in range(16)))
    return found

"""Gears before the demo's own engines: switched under load, no request is lost and none is served under two."""

import asyncio
from collections import Counter
from pathlib import Path

from cascadia.clients.hub.catalogue import model_named
from cascadia.clients.hub.fetch import fetch
from cascadia.clients.processes.ports import free_port
from cascadia.demo.children import Children
from cascadia.demo.stages import STAGES, engine_command
from cascadia.router.settings.model import (
    GearSettings,
    Health,
    JudgeSettings,
    ReplicaSettings,
    RouterSettings,
    StageSettings,
)
from cascadia.testing.routers import Running, ScriptedGate, run, running

REQUESTS, SWITCHES, CLIENTS = 300, 500, 4
CONTEXT = 1024
PATIENCE_S = 300.0
LADDER = (GearSettings(0, 1000.0, ("small", "large"), {"small": 101.0}), GearSettings(1, None, ("small",)))
"""The heavy gear takes no answer of the small stage, so whoever is in it is asked of both."""
WHOLE = {"0": ["small", "large"], "1": ["small"]}


def test_three_hundred_requests_through_five_hundred_switches(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        urls = {}
        for stage in STAGES:
            port, weights = free_port(), fetch(model_named(stage.catalogue_name))
            urls[stage.name] = children.start(
                stage.name, engine_command(stage, weights, port, CONTEXT), port
            ).url
        children.wait(limit_s=PATIENCE_S)
        told = tuple(StageSettings(name, name, (ReplicaSettings(url),)) for name, url in urls.items())
        settings = RouterSettings(
            told, JudgeSettings("certainty"), gears=LADDER, health=Health(timeout_s=60.0, failures=20)
        )
        found: list[tuple[int, str, list[str]]] = []

        async def main() -> None:
            async with running(settings, ScriptedGate({})) as up:
                await _ask_while_switching(up, found)
                assert up.router.metrics.gear_switches.value >= SWITCHES

        run(main)
    assert Counter(status for status, _, _ in found) == {200: REQUESTS}
    assert [one for one in found if one[2] != WHOLE[one[1]]] == []
    assert min(Counter(gear for _, gear, _ in found).values()) > REQUESTS / 10


async def _ask_while_switching(up: Running, found: list[tuple[int, str, list[str]]]) -> None:
    gears, numbers = up.router.gears, iter(range(REQUESTS))
    assert gears is not None
    switched = 0

    async def client() -> None:
        nonlocal switched
        for number in numbers:
            # Five switches to three requests: they meet them at every point of their way, and both gears get some.
            while switched * REQUESTS < SWITCHES * (number + 1):
                switched += 1
                gears.pin(switched % 2)
            answer = await up.chat(max_tokens=2)
            steps = answer.headers.get("x-cascadia-steps", "")
            asked = [step.split(";")[0] for step in steps.split(", ")]
            found.append((answer.status_code, answer.headers.get("x-cascadia-gear", ""), asked))

    up.client.timeout = PATIENCE_S
    await asyncio.gather(*(client() for _ in range(CLIENTS)))

"""Routers of one host certify exits together, and go on where those before them were. Over real sockets."""

import asyncio
from dataclasses import replace
from pathlib import Path

from cascadia.domain.plan import ExitPromise
from cascadia.router.settings.model import JudgeSettings, RouterSettings
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running
from tests.unit.router.cascade.test_thinking import LONG, thinker, thinks

GATE = {"trial 4": 90.0, "trial 8": 10.0, "a " * LONG + "whole": 70.0}


def settings(small: FakeEngine, large: FakeEngine, folder: Path, risk: float = 0.5) -> RouterSettings:
    first, *others = thinker(small, large)
    promised = replace(first, promise=ExitPromise(risk, 0.5, 1.0))
    return RouterSettings((promised, *others), JudgeSettings("certainty"), health=QUICK, exit_states=folder)


def test_two_routers_gather_one_certificate_which_outlives_them(tmp_path: Path) -> None:
    folder = tmp_path / "exits-state"

    async def main() -> None:
        small, large = FakeEngine(answer=thinks), FakeEngine("large")
        async with started(small, large):
            told = settings(small, large, folder)
            async with (
                running(told, ScriptedGate(GATE)) as one,
                running(told, ScriptedGate(GATE)) as other,
            ):
                for _ in range(3):
                    await asyncio.gather(one.chat(), other.chat())
                for up in (one, other, one):
                    await up.router.exit_states._exchange()
                states = [up.router.stages[0].exits.controller.inputs for up in (one, other)]
            assert states == [6, 6]
            async with running(told, ScriptedGate(GATE)) as again:
                again.router.stages[0].exits._shadow = 0.0
                early = await again.chat()
            assert early.headers["x-cascadia-exit"] == "small@4"
            assert len(list(folder.glob("*.json"))) == 1
            # Of another promise nothing is known.
            async with running(settings(small, large, folder, 0.4), ScriptedGate(GATE)) as stricter:
                assert stricter.router.stages[0].exits.controller.inputs == 0

    run(main)

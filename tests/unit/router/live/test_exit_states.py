"""Routers of one host certify exits together, and go on where those before them were. Over real sockets."""

import asyncio
import itertools
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cascadia.domain.plan import ExitPromise
from cascadia.exits.length import Certified
from cascadia.router.live.exit_states import told_of_exits
from cascadia.router.settings.file import foresight_at
from cascadia.router.settings.model import JudgeSettings, ReplicaSettings, RouterSettings
from cascadia.testing.engines import FakeEngine, send, started
from cascadia.testing.routers import QUICK, Running, ScriptedGate, run, running, stages, until
from cascadia_judge.scores.verifiers import Verifier
from tests.unit.router.cascade.test_thinking import LONG, thinker, thinks

NUMBERS = itertools.count()
GATE = {"trial 4": 90.0, "trial 8": 10.0, "a " * LONG + "whole": 70.0}


def settings(small: FakeEngine, large: FakeEngine, folder: Path | None, risk: float = 0.5) -> RouterSettings:
    first, *others = thinker(small, large)
    promised = replace(first, promise=ExitPromise(risk, 0.5, 1.0))
    return RouterSettings((promised, *others), JudgeSettings("certainty"), health=QUICK, exit_states=folder)


def new_question() -> list[dict[str, str]]:
    return [{"role": "user", "content": f"What is 2+{next(NUMBERS)}?"}]


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
                    await asyncio.gather(*(up.chat(messages=new_question()) for up in (one, other)))
                seen = [up.router.stages[0].exits.controller for up in (one, other)]
                await until(lambda: [each.inputs for each in seen] == [6, 6])
            async with running(told, ScriptedGate(GATE)) as again:
                again.router.stages[0].exits._shadow = 0.0
                early = await again.chat()
            assert early.headers["x-cascadia-exit"] == "small@4"
            assert len(list(folder.glob("*.json"))) == 1
            # Of another promise nothing is known.
            async with running(settings(small, large, folder, 0.4), ScriptedGate(GATE)) as stricter:
                assert stricter.router.stages[0].exits.controller.inputs == 0

    run(main)


class JudgeService(FakeEngine):
    """An embedding judge's service with the verdicts of `GATE`, trained as `name` says (None: it does not)."""

    def __init__(self, name: str | None) -> None:
        super().__init__(answer=self.judged)
        self.name = name

    async def judged(self, _: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        says = {"score": GATE[body["answer"]], "certainty": 0.5, "tokens": 9}
        named = {} if self.name is None else {"judge": self.name}
        send(writer, 200, json.dumps(says | named).encode())


def judged(
    small: FakeEngine, large: FakeEngine, service: JudgeService, folder: Path | None
) -> RouterSettings:
    (stage,) = stages(service)
    judge = JudgeSettings(
        "embedding", replace(stage, name="judge", model="judge"), certainty=False, cache_size=0
    )
    return replace(settings(small, large, folder), judge=judge)


def exits_of(up: Running) -> Certified:
    exits = up.router.stages[0].exits
    assert isinstance(exits, Certified)
    return exits


async def gathered(up: Running, count: int) -> None:
    """Each request is drawn, no two are alike, and evidence is exchanged: then, and not by the timer in between."""
    timer = up.router.exit_states._worker
    assert timer is not None
    timer.cancel()
    for _ in range(count):
        await up.chat(messages=new_question())
        await up.router.exit_states._exchange()


def anew(caplog: pytest.LogCaptureFixture) -> int:
    return len([one for one in caplog.messages if "begin anew" in one])


@pytest.mark.parametrize("kept", [True, False], ids=["in a file", "in the process"])
def test_a_judge_trained_anew_under_its_name_has_no_evidence_yet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kept: bool
) -> None:
    caplog.set_level(logging.WARNING, "cascadia.router")

    async def main() -> None:
        small, large, service = FakeEngine(answer=thinks), FakeEngine("large"), JudgeService("first")
        async with started(small, large, service):
            told = judged(small, large, service, tmp_path / "state" if kept else None)
            async with running(told) as up:
                await gathered(up, 6)
                assert exits_of(up).controller.inputs == 6
                assert exits_of(up).state[0] > 0
                service.name = "second"
                await gathered(up, 1)
                assert (exits_of(up).controller.inputs, exits_of(up).state[0]) == (0, 0)
                await gathered(up, 2)
                assert exits_of(up).controller.inputs == 2
            assert anew(caplog) == 1

    run(main)


@pytest.mark.parametrize("second", ["first", "second", None], ids=["the same", "another", "no name"])
def test_evidence_outlives_a_restart_for_the_judge_it_is_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, second: str | None
) -> None:
    caplog.set_level(logging.WARNING, "cascadia.router")

    async def main() -> None:
        small, large, service = FakeEngine(answer=thinks), FakeEngine("large"), JudgeService("first")
        async with started(small, large, service):
            told = judged(small, large, service, tmp_path / "state")
            async with running(told) as up:
                await gathered(up, 6)
            service.name = second
            async with running(told) as up:
                # Nobody has said yet whose scores they will be.
                assert exits_of(up).state[0] == 0
                await gathered(up, 2)
                same = second == "first"
                assert exits_of(up).controller.inputs == (7 if same else 2)
                assert anew(caplog) == 1 - same

    run(main)


@pytest.mark.parametrize("field", [None, "thinking_token_budget"], ids=["a trial", "a budget"])
def test_foresight_trained_anew_has_no_evidence_where_exits_ask_the_question(field: str | None) -> None:
    """It decides who has a trial, or a budget: of other heads the evidence says nothing."""

    async def main() -> None:
        small, large, heads = FakeEngine(answer=thinks), FakeEngine("large"), FakeEngine("heads")
        name = "first"

        async def foresees(_: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
            send(writer, 200, json.dumps({"score": 90.0, "judge": name}).encode())

        heads.answer = foresees
        async with started(small, large, heads):
            told = settings(small, large, None)
            first = replace(told.stages[0], budget_field=field)
            if field is None:
                first = replace(first, exits=tuple(replace(each, foreseen=95.0) for each in first.exits))
            foresight = foresight_at((ReplicaSettings(heads.url),))
            told = replace(told, stages=(first, *told.stages[1:]), foresight=foresight)
            gate = ScriptedGate(GATE | {"a " * LONG + "whole": 70.0})
            async with running(told, gate) as up:
                await until(
                    lambda: all(
                        r.state == "ready" for s in up.router.active_plan.all_stages for r in s.replicas
                    )
                )
                await gathered(up, 6)
                assert exits_of(up).controller.inputs == 6
                name = "second"
                await gathered(up, 1)
                assert exits_of(up).controller.inputs == 0

    run(main)


def test_whatever_changes_a_score_or_an_exit_is_told_apart() -> None:
    (first, _) = thinker(FakeEngine(), FakeEngine())
    judge = JudgeSettings("certainty", points=((0.0, 0.0), (1.0, 100.0)))
    known = told_of_exits(first, judge)
    for changed in (
        replace(first, model="other"),
        replace(first, ends_thinking="So:"),
        replace(first, ends_answer="\n"),
        replace(first, exits=first.exits[:1]),
        replace(first, exits=tuple(replace(each, foreseen=95.0) for each in first.exits)),
        replace(first, promise=ExitPromise(0.1, 0.9, 1.0)),
        replace(first, verifiers=(Verifier("regex", "4"),)),
    ):
        assert told_of_exits(changed, judge) != known
    for other in (
        replace(judge, statistic="min-logprob"),
        replace(judge, points=((0.0, 0.0), (1.0, 90.0))),
        replace(judge, kind="agreement"),
        JudgeSettings("ensemble", members=(judge, judge)),
        None,
    ):
        assert told_of_exits(first, other) != known
    assert told_of_exits(first, replace(judge, timeout_s=1.0, cache_size=9)) == known

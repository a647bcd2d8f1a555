"""Trials of a stage that thinks, written only where the question alone promises much. Over real sockets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import ExitPromise
from cascadia.domain.points import Exit, Points
from cascadia.domain.quality import QualityTable
from cascadia.planner.problem.points import Named, read_points
from cascadia.planner.problem.quality_file import write_quality
from cascadia.planner.routing.points import Setting, folded
from cascadia.planner.routing.routings import ACCEPTS_NONE
from cascadia.router.settings.file import read_settings
from cascadia.router.settings.from_plan import foresight_at
from cascadia.router.settings.model import ENDS_THINKING, ExitSettings, ReplicaSettings, RouterSettings
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages
from tests.unit.router.cascade.test_budget import Expected, foreseeing, ready
from tests.unit.router.cascade.test_thinking import LONG, thinks

WHOLE = "a " * LONG + "whole"
EXITS = (ExitSettings(4, 80.0, foreseen=95.0), ExitSettings(8, 60.0, foreseen=90.0))
MUCH, LITTLE, NOTHING = (
    {"small@4": 88.0, "small@8": 90.0, "small": 91.0},
    {"small@4": 80.0, "small@8": 82.0, "small": 91.0},
    {"small@4": 70.0, "small@8": 80.0, "small": 91.0},
)
"""Of the first exit and the second; of the second alone; of none."""


def settings_of(
    small: FakeEngine,
    large: FakeEngine,
    heads: FakeEngine,
    exits: tuple[ExitSettings, ...] = EXITS,
    promise: ExitPromise | None = None,
) -> RouterSettings:
    first, second = stages(small, large, thresholds=(50,))
    first = replace(first, exits=exits, promise=promise)
    return RouterSettings(
        (first, second), None, foresight=foresight_at((ReplicaSettings(heads.url),)), health=QUICK
    )


async def asked(settings: RouterSettings, gate: ScriptedGate, **body: Any) -> Any:
    async with running(settings, gate) as up:
        await ready(up)
        return await up.chat(**body)


@pytest.mark.parametrize(
    ("expected", "exit_", "calls"),
    [
        (MUCH, "small@4", ["", ENDS_THINKING]),
        (LITTLE, "small@8", ["", ENDS_THINKING]),
        (NOTHING, None, [""]),
        ({"small": 91.0}, None, [""]),
    ],
    ids=["much", "little", "nothing", "not known"],
)
def test_where_the_question_promises_little_there_is_no_trial_and_no_stop(
    expected: Expected, exit_: str | None, calls: list[str]
) -> None:
    async def main() -> None:
        small, large, heads = FakeEngine(answer=thinks), FakeEngine("large"), foreseeing(expected)
        gate = ScriptedGate({"trial 4": 90.0, "trial 8": 90.0, WHOLE: 70.0})
        async with started(small, large, heads):
            answer = await asked(settings_of(small, large, heads), gate)
        assert answer.headers.get("x-cascadia-exit") == exit_
        last = [request["messages"][-1] for request in small.requests]
        behind = [each["content"] if each["role"] == "assistant" else "" for each in last]
        assert [each.removeprefix("a " * 4).removeprefix("a " * 4) for each in behind] == calls
        assert answer.json()["cascadia"]["usage"]["completion_tokens"] == {
            "small@4": 4 + 2, "small@8": 8 + 2, None: LONG + 1,
        }[exit_]  # fmt: skip

    run(main)


def test_before_any_thought_the_trial_is_the_first_call() -> None:
    """It is no piece of nought tokens; who goes on thinks from the beginning."""

    async def main() -> None:
        for score, tokens, calls in ((90.0, 2, 1), (10.0, 2 + LONG + 1, 2)):
            small, large, heads = FakeEngine(answer=thinks), FakeEngine("large"), foreseeing({})
            gate = ScriptedGate({"trial 0": score, WHOLE: 70.0})
            async with started(small, large, heads):
                answer = await asked(settings_of(small, large, heads, (ExitSettings(0, 80.0),)), gate)
            assert answer.headers.get("x-cascadia-exit") == ("small@0" if calls == 1 else None)
            assert answer.json()["cascadia"]["usage"]["completion_tokens"] == tokens
            assert answer.json()["usage"]["prompt_tokens"] == 10
            assert len(small.requests) == calls

    run(main)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, ["\n"]),
        ({"stop": "x"}, ["x", "\n"]),
        ({"stop": ["x", "y"]}, ["x", "y", "\n"]),
        ({"stop": None}, ["\n"]),
    ],
)
def test_a_trial_ends_where_the_stages_answers_do_and_thoughts_do_not(
    given: dict[str, Any], told: list[str]
) -> None:
    """A model that goes on behind its answer made each trial as long as thinking."""

    async def main() -> None:
        small, large, heads = FakeEngine(answer=thinks), FakeEngine("large"), foreseeing({})
        async with started(small, large, heads):
            settings = settings_of(small, large, heads, (ExitSettings(4, 80.0),))
            first = replace(settings.stages[0], ends_answer="\n")
            settings = replace(settings, stages=(first, *settings.stages[1:]))
            await asked(settings, ScriptedGate({"trial 4": 10.0, WHOLE: 70.0}), **given)
        assert [request.get("stop") for request in small.requests] == [
            given.get("stop"),
            told,
            given.get("stop"),
        ]

    run(main)


def test_nobody_looks_at_the_question_for_exits_that_are_not_in_force() -> None:
    async def main() -> None:
        small, large, heads = FakeEngine(answer=thinks), FakeEngine("large"), foreseeing(MUCH)
        async with started(small, large, heads):
            told = settings_of(small, large, heads, promise=ExitPromise(0.5, 0.5, 1e-9))
            await asked(told, ScriptedGate({WHOLE: 70.0}))
        assert heads.requests == []
        assert len(small.requests) == 1

    run(main)


def test_who_is_drawn_has_the_trials_that_it_would_have_had() -> None:
    """It thinks to the end, and the certificate learns of these alone."""

    async def main() -> None:
        small, large, heads = FakeEngine(answer=thinks), FakeEngine("large"), foreseeing(LITTLE)
        gate = ScriptedGate({"trial 8": 90.0, WHOLE: 70.0})
        async with started(small, large, heads):
            told = settings_of(small, large, heads, promise=ExitPromise(0.5, 0.5, 1.0))
            async with running(told, gate) as up:
                await ready(up)
                exits = up.router.cascade.stages[0].exits
                for n in range(6):
                    await up.chat(messages=[{"role": "user", "content": f"{n}?"}])
                assert exits.controller.inputs == 6
                exits._shadow = 0.0
                left = await up.chat()
        assert left.headers["x-cascadia-exit"] == "small@8"
        assert len(small.requests) == 6 * 3 + 2
        assert sum(answer == "trial 4" for _, answer in gate.seen) == 0

    run(main)


@pytest.mark.parametrize("scores", [(85.0, 0.0, 70.0), (79.0, 60.0, 70.0), (10.0, 10.0, 70.0)])
@pytest.mark.parametrize("expected", [MUCH, LITTLE, NOTHING], ids=["much", "little", "nothing"])
@pytest.mark.parametrize("drawn", [False, True], ids=["as it is", "drawn as evidence"])
@pytest.mark.parametrize("last", [None, 1], ids=["thinks on", "ends at the second exit"])
def test_a_plan_counts_the_tokens_and_verdicts_that_the_router_asks_for(
    tmp_path: Path, scores: tuple[float, ...], expected: Expected, drawn: bool, last: int | None
) -> None:
    names = ("small@4", "small@8", "small", "large")
    of_all = np.array([*scores, 90.0])[:, None]
    told = np.array([*(expected[name] for name in names[:3]), 95.0])[:, None]
    table = QualityTable(
        ("p",), names, of_all, quality=of_all, input_tokens=np.full((4, 1), 10.0),
        output_tokens=np.array([6.0, 10.0, 13.0, 9.0])[:, None], foreseen=told,
    )  # fmt: skip
    write_quality(table, tmp_path / "table.csv")
    asks = tuple(Exit(each.thinking_tokens, each.foreseen) for each in EXITS)
    named = (Named("small", asks if last is None else (asks[0], Exit(8))), Named("large", ()))
    _, points = read_points(tmp_path / "table.csv", named, None, lambda _: None)
    assert isinstance(points, Points)
    levels = [80.0, 60.0 if last is None else ACCEPTS_NONE, ACCEPTS_NONE, ACCEPTS_NONE]
    counted = folded(points, Setting(tuple(levels), (2 if last is None else 1, 3)), float(drawn))
    row, gated = np.zeros(1, np.int64), np.array([[True], [False]])
    evidence = counted.drawn(row)
    tokens = counted.output_tokens if counted.drawn_tokens is None else counted.drawn_tokens
    assert counted.ahead is not None
    assert counted.ahead[0]

    async def main() -> None:
        small, large, heads = FakeEngine(answer=thinks), FakeEngine("large"), foreseeing(expected)
        gate = ScriptedGate(dict(zip(("trial 4", "trial 8", WHOLE), scores, strict=True)))
        exits = EXITS if last is None else (EXITS[0], ExitSettings(8, 50.0, last=True))
        promise = ExitPromise(0.5, 0.5, 1.0) if drawn else None
        async with started(small, large, heads):
            await asked(settings_of(small, large, heads, exits, promise), gate)
        wrote = 0
        for request in small.requests:
            begun = request["messages"][-1]["content"]
            trial = begun.endswith(ENDS_THINKING)
            thought = begun.count("a ") if request["messages"][-1]["role"] == "assistant" else 0
            wrote += 2 if trial else min(request.get("max_tokens", LONG + 1), LONG + 1 - thought)
        assert wrote == tokens[0, 0]
        assert len(gate.seen) == counted.verdicts_of(row, gated, evidence)[0, 0]

    run(main)


@pytest.mark.parametrize(
    ("exit_", "said"),
    [
        (
            "threshold: 80, foreseen: 95}",
            r"exits\[0\].foreseen: needs foresight, or a judge of kind embedding",
        ),
        ("threshold: 80, foreseen: 0}", "foreseen"),
        ("threshold: 80, foreseen: 95, last: true}", r"exits\[0\].foreseen: has no effect"),
        ("threshold: 80, foreseen: 95}]\n  budget_field: budget\n  x: [{", "foreseen: is of trials"),
    ],
)
def test_what_nobody_could_foresee_is_one_line(tmp_path: Path, exit_: str, said: str) -> None:
    (tmp_path / "router.yaml").write_text(
        "judge: {kind: certainty}\nstages:\n- name: a\n  replicas: [{url: 'http://h:1'}]\n"
        f"  exits: [{{thinking_tokens: 9, {exit_}]\n".replace("\n  x: [{]", "")
    )
    with pytest.raises(BadInput, match=said):
        read_settings(tmp_path / "router.yaml")

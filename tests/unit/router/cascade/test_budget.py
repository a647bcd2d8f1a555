"""Budgets of a stage that thinks, chosen from the question: its engine is told, and says where. Over real sockets."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import ExitPromise
from cascadia.router.settings.file import read_settings
from cascadia.router.settings.from_plan import foresight_at
from cascadia.router.settings.model import ExitSettings, JudgeSettings, ReplicaSettings, RouterSettings
from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import QUICK, Running, ScriptedGate, run, running, stages, until

FIELD = "thinking_token_budget"
EXITS = (ExitSettings(4, 95.0), ExitSettings(8, 95.0))
LONG = 12
Expected = dict[str, float]


async def thinks(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """Says how long it was allowed to think."""
    told = body.get(FIELD, body.get("custom_params", {}).get("thinking_budget"))
    wrote = min(LONG if told is None else told, LONG) + 2
    usage = {"prompt_tokens": 10, "completion_tokens": wrote, "total_tokens": 10 + wrote}
    text = completion("whole" if told is None else f"within {told}")
    send(writer, 200, json.dumps(json.loads(text) | {"usage": usage}).encode())


def knowing_no_budget(says: str) -> FakeEngine:
    async def refuses(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if FIELD in body:
            send(writer, 400, json.dumps({"error": {"message": says}}).encode())
        else:
            await thinks(engine, body, writer)

    return FakeEngine(answer=refuses)


def foreseeing(expected: Expected) -> FakeEngine:
    """Heads that promise so much of an answer, by what tables call it; not known: a refusal."""

    async def score(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        known = body["stage"] in expected
        send(writer, 200 if known else 400, json.dumps({"score": expected.get(body["stage"])}).encode())

    return FakeEngine("heads", answer=score)


async def ready(up: Running) -> None:
    await until(lambda: all(r.state == "ready" for s in up.router.active_plan.all_stages for r in s.replicas))


def settings_of(
    small: FakeEngine,
    large: FakeEngine,
    heads: FakeEngine,
    *,
    promise: ExitPromise | None = None,
    field: str = FIELD,
) -> RouterSettings:
    first, second = stages(small, large, thresholds=(50,))
    first = replace(first, exits=EXITS, budget_field=field, promise=promise)
    return RouterSettings(
        (first, second), None, foresight=foresight_at((ReplicaSettings(heads.url),)), health=QUICK
    )


EASY = {"small@4": 88.0, "small@8": 90.0, "small": 91.0}
HARD = {"small@4": 40.0, "small@8": 87.0, "small": 91.0}
HARDEST = {"small@4": 10.0, "small@8": 20.0, "small": 91.0}
NEVER = {"small@4": 0.0, "small@8": 0.0, "small": 100.0}


@pytest.mark.parametrize(
    ("expected", "exit_", "told"),
    [(EASY, "small@4", 4), (HARD, "small@8", 8), (HARDEST, None, None), ({"small@4": 90.0}, None, None)],
    ids=["easy", "hard", "hardest", "not known"],
)
@pytest.mark.parametrize("field", [FIELD, "custom_params.thinking_budget"])
def test_the_question_alone_chooses_the_budget_and_one_request_goes_out_with_it(
    expected: Expected, exit_: str | None, told: int | None, field: str
) -> None:
    async def main() -> None:
        small, large, heads = FakeEngine(answer=thinks), FakeEngine("large"), foreseeing(expected)
        gate = ScriptedGate({"whole": 70.0})
        async with (
            started(small, large, heads),
            running(settings_of(small, large, heads, field=field), gate) as up,
        ):
            await ready(up)
            answer = await up.chat()
            metrics = (await up.client.get("/metrics")).text
        (request,) = small.requests
        outer, _, name = field.partition(".")
        assert request.get(outer) == (told if told is None or not name else {name: told})
        assert answer.headers.get("x-cascadia-exit") == exit_
        assert answer.headers["x-cascadia-stage"] == "small"
        assert answer.json()["choices"][0]["message"]["content"] == (f"within {told}" if told else "whole")
        place = {4: "1", 8: "2", None: "0"}[told]
        assert f'cascadia_stage_exits_total{{at="{place}",stage="small"}} 1.0' in metrics
        assert large.requests == []

    run(main)


@pytest.mark.parametrize(
    "more",
    [{"exits": False}, {FIELD: 100}, {"max_tokens": 4}, {"score_min": 60}, {"tools": []}],
    ids=lambda more: next(iter(more)),
)
def test_who_declines_or_bounds_its_answer_itself_has_no_budget(more: dict[str, Any]) -> None:
    async def main() -> None:
        small, large, heads = FakeEngine(answer=thinks), FakeEngine("large"), foreseeing(EASY)
        gate = ScriptedGate({"whole": 70.0, "within 100": 70.0})
        async with started(small, large, heads), running(settings_of(small, large, heads), gate) as up:
            await ready(up)
            answer = await up.chat(**more)
        assert "x-cascadia-exit" not in answer.headers
        assert small.requests[0].get(FIELD) == more.get(FIELD)

    run(main)


def test_an_answer_of_one_token_more_than_its_thinking_may_have_the_budget() -> None:
    async def main() -> None:
        small, large, heads = FakeEngine(answer=thinks), FakeEngine("large"), foreseeing(EASY)
        async with started(small, large, heads), running(settings_of(small, large, heads)) as up:
            await ready(up)
            answer = await up.chat(max_tokens=5)
        assert answer.headers["x-cascadia-exit"] == "small@4"

    run(main)


def test_a_question_that_no_setting_would_bound_is_evidence_without_a_trial() -> None:
    """Else budgets that seldom apply would be certified by the few to whom they do."""

    async def main() -> None:
        small, large, heads = FakeEngine(answer=thinks), FakeEngine("large"), foreseeing(NEVER)
        promise = ExitPromise(0.5, 0.5, 1.0)
        async with started(small, large, heads):
            settings = settings_of(small, large, heads, promise=promise)
            async with running(settings, ScriptedGate({"whole": 70.0})) as up:
                await ready(up)
                assert (await up.chat()).status_code == 200
                metrics = (await up.client.get("/metrics")).text
        assert len(small.requests) == 1
        assert 'cascadia_stage_exit_evidence_total{lost="no",stage="small"} 1.0' in metrics

    run(main)


def test_who_asks_for_log_probabilities_of_an_answer_within_a_budget_gets_no_more_than_asked_for() -> None:
    """The judge asks for the alternatives of each token too."""

    async def main() -> None:
        small, large = FakeEngine("yes", logprobs=[[-0.1, -3.0]]), FakeEngine("large")
        heads = foreseeing(EASY)
        async with started(small, large, heads):
            settings = replace(settings_of(small, large, heads), judge=JudgeSettings("certainty"))
            async with running(settings) as up:
                await ready(up)
                answer = await up.chat(logprobs=True)
        assert answer.headers["x-cascadia-exit"] == "small@4"
        assert small.requests[0]["top_logprobs"] == 2
        (token,) = answer.json()["choices"][0]["logprobs"]["content"]
        assert token["top_logprobs"] == []

    run(main)


def test_budgets_are_in_force_once_certified_and_who_is_drawn_thinks_to_the_end() -> None:
    """Beside it, its question is answered within the budgets that some setting would choose: a cautious one the second,
    a bold one the first."""

    async def main() -> None:
        small, large, heads = FakeEngine(answer=thinks), FakeEngine("large"), foreseeing(EASY)
        gate = ScriptedGate({"within 4": 68.0, "within 8": 69.0, "whole": 70.0})
        promise = ExitPromise(0.5, 0.5, 1.0)
        async with (
            started(small, large, heads),
            running(settings_of(small, large, heads, promise=promise), gate) as up,
        ):
            await ready(up)
            exits = up.router.cascade.stages[0].exits
            drawn = [await up.chat(messages=[{"role": "user", "content": f"{n}?"}]) for n in range(6)]
            exits._shadow = 0.0
            left = await up.chat()
            metrics = (await up.client.get("/metrics")).text
        assert all(answer.json()["choices"][0]["message"]["content"] == "whole" for answer in drawn)
        assert all("x-cascadia-exit" not in answer.headers for answer in drawn)
        assert drawn[0].json()["cascadia"]["usage"]["completion_tokens"] == 14 + 6 + 10
        assert left.headers["x-cascadia-exit"] == "small@4"
        assert 'cascadia_stage_exit_evidence_total{lost="no",stage="small"} 6.0' in metrics

    run(main)


def test_nobody_looks_at_the_question_for_budgets_that_are_not_in_force() -> None:
    async def main() -> None:
        small, large, heads = FakeEngine(answer=thinks), FakeEngine("large"), foreseeing(EASY)
        promise = ExitPromise(0.5, 0.5, 1e-9)
        async with started(small, large, heads):
            settings = settings_of(small, large, heads, promise=promise)
            async with running(settings, ScriptedGate({"whole": 70.0})) as up:
                await ready(up)
                answer = await up.chat()
        assert "x-cascadia-exit" not in answer.headers
        assert heads.requests == []

    run(main)


def test_a_trial_that_fails_costs_no_answer_and_is_no_evidence() -> None:
    async def main() -> None:
        small, large, heads = knowing_no_budget("no such field"), FakeEngine("large"), foreseeing(EASY)
        promise = ExitPromise(0.5, 0.5, 1.0)
        async with started(small, large, heads):
            settings = settings_of(small, large, heads, promise=promise)
            async with running(settings, ScriptedGate({"whole": 70.0})) as up:
                await ready(up)
                answers = [await up.chat() for _ in range(3)]
                assert up.router.cascade.stages[0].exits.controller.inputs == 0
        assert all(answer.status_code == 200 for answer in answers)

    run(main)


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ("exits: []", "budget_field: has no exits"),
        ("exits: [{thinking_tokens: 9, threshold: 0, last: true}]", "are budgets, none of which is the last"),
        (
            "exits: [{thinking_tokens: 9, threshold: 90}]",
            "budget_field: needs foresight, or a judge of kind embedding",
        ),
    ],
)
def test_budgets_that_nobody_could_choose_are_one_line(tmp_path: Path, stage: str, said: str) -> None:
    (tmp_path / "router.yaml").write_text(
        "judge: {kind: certainty}\n"
        "stages:\n- name: a\n  replicas: [{url: 'http://h:1'}]\n  budget_field: thinking_token_budget\n"
        f"  {stage}\n"
    )
    with pytest.raises(BadInput, match=said):
        read_settings(tmp_path / "router.yaml")


def test_an_engine_that_knows_no_budget_serves_the_request_without() -> None:
    async def main() -> None:
        small, large, heads = (
            knowing_no_budget("thinking_token_budget needs --reasoning-config"),
            FakeEngine("large"),
            foreseeing(EASY),
        )
        async with (
            started(small, large, heads),
            running(settings_of(small, large, heads), ScriptedGate({"whole": 70.0})) as up,
        ):
            await ready(up)
            answer = await up.chat()
        assert answer.status_code == 200
        assert answer.json()["choices"][0]["message"]["content"] == "whole"
        assert "x-cascadia-exit" not in answer.headers

    run(main)

"""A stage that thinks answers early where a trial answer is good enough, and says where. Over real sockets."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import ExitPromise
from cascadia.domain.points import Points
from cascadia.domain.quality import QualityTable
from cascadia.planner.routing.points import Setting, folded
from cascadia.planner.routing.routings import ACCEPTS_NONE
from cascadia.router.settings.file import read_settings
from cascadia.router.settings.model import (
    ENDS_THINKING,
    ExitSettings,
    JudgeSettings,
    RouterSettings,
    StageSettings,
)
from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages, until

EXITS = (ExitSettings(4, 80.0), ExitSettings(8, 60.0))
LONG = 12


async def thinks(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """Writes `a a a ...`, twelve in all, then `whole`; asked to answer, it says after how many it was."""
    last = body["messages"][-1]
    so_far = last["content"] if last["role"] == "assistant" else ""
    thought = so_far.count("a ")
    if so_far.endswith(ENDS_THINKING):
        text, wrote, finish = f"trial {thought}", 2, "stop"
    else:
        wrote = min(body.get("max_tokens", LONG + 1), LONG + 1 - thought)
        done = thought + wrote > LONG
        text, finish = "a " * (wrote - done) + "whole" * done, "stop" if done else "length"
    usage = {"prompt_tokens": 10 + thought, "completion_tokens": wrote, "total_tokens": 10 + thought + wrote}
    message = {"role": "assistant", "content": so_far + text if engine.text == "echoes" else text}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    send(writer, 200, json.dumps(json.loads(completion("")) | {"choices": [choice], "usage": usage}).encode())


def thinker(
    engine: FakeEngine, *more: FakeEngine, exits: tuple[ExitSettings, ...] = EXITS
) -> tuple[StageSettings, ...]:
    small, *others = stages(engine, *more, thresholds=(50,))
    return (replace(small, exits=exits), *others)


@pytest.mark.parametrize("engine", ["says what is new", "echoes"])
@pytest.mark.parametrize(
    ("scores", "exit_", "said", "asked", "tokens"),
    [
        ({"trial 4": 85.0}, "small@4", "trial 4", 2, 6),
        ({"trial 4": 79.0, "trial 8": 60.0}, "small@8", "trial 8", 4, 10),
        ({"trial 4": 10.0, "trial 8": 10.0, "a " * LONG + "whole": 70.0}, None, "a " * LONG + "whole", 5, 13),
    ],
)
def test_a_trial_that_is_good_enough_is_the_answer_and_else_it_thinks_on(
    scores: dict[str, float], exit_: str | None, said: str, asked: int, tokens: int, engine: str
) -> None:
    async def main() -> None:
        small, large = FakeEngine(engine, answer=thinks), FakeEngine("large")
        async with started(small, large):
            first, second = thinker(small, large)
            settings = (replace(first, echoes=engine == "echoes"), second)
            async with running(settings, ScriptedGate(scores)) as up:
                answer = await up.chat()
        assert answer.json()["choices"][0]["message"]["content"] == said
        assert answer.headers.get("x-cascadia-exit") == exit_
        assert answer.headers["x-cascadia-stage"] == "small"
        assert len(small.requests) == asked
        assert answer.json()["usage"] == {
            "prompt_tokens": 10,
            "completion_tokens": tokens,
            "total_tokens": 10 + tokens,
        }
        assert large.requests == []

    run(main)


def test_what_goes_on_continues_the_same_prefix() -> None:
    """So that engines find it in their cache; trials that were not good enough count in the cascade's total."""

    async def main() -> None:
        small, large = FakeEngine(answer=thinks), FakeEngine("large")
        gate = ScriptedGate({"trial 4": 0.0, "trial 8": 90.0})
        async with started(small, large), running(thinker(small, large), gate) as up:
            answer = await up.chat()
        said = [r["messages"][-1]["content"] for r in small.requests]
        assert said[1:] == ["a " * 4 + ENDS_THINKING, "a " * 4, "a " * 8 + ENDS_THINKING]
        assert all(r["continue_final_message"] and not r["add_generation_prompt"] for r in small.requests[1:])
        assert [r.get("max_tokens") for r in small.requests] == [4, None, 4, None]
        assert answer.json()["choices"][0]["message"]["reasoning_content"] == "a " * 8
        assert answer.json()["cascadia"]["usage"]["completion_tokens"] == 4 + 2 + 4 + 2

    run(main)


def test_a_gate_has_of_a_trial_what_it_wants_of_an_answer() -> None:
    """A judge that reads log-probabilities could score no trial without them: everybody would think to the end."""

    class Reads(ScriptedGate):
        def wants(self, api: str) -> dict[str, Any]:
            return {"logprobs": True, "top_logprobs": 2}

    async def main() -> None:
        small, large = FakeEngine(answer=thinks), FakeEngine("large")
        async with started(small, large), running(thinker(small, large), Reads({"trial 4": 90.0})) as up:
            answer = await up.chat()
        assert answer.headers["x-cascadia-exit"] == "small@4"
        _, trial = small.requests
        assert (trial["logprobs"], trial["top_logprobs"]) == (True, 2)

    run(main)


def test_balancing_learns_from_each_call_what_that_took_and_not_how_long_the_judge_thought() -> None:
    async def main() -> None:
        small = FakeEngine(answer=thinks)
        scores = {"trial 4": 0.0, "trial 8": 0.0, "a " * LONG + "whole": 0.0}
        async with started(small, FakeEngine("large")):
            told = tuple(replace(s, balancing="earliest-finish") for s in thinker(small, small))
            async with running(told, ScriptedGate(scores)) as up:
                assert (await up.chat(max_stage="small")).status_code == 200
                admission = up.router.stages[0].admission
                timed = admission.timed
                assert timed is not None
                assert [wrote for _, wrote in timed.length._latest] == [4, 2, 4, 2, 5]
                assert admission.length.answers == 1 + len(small.requests) == 6

    run(main)


@pytest.mark.parametrize("how", [{"json": {"exits": False}}, {"headers": {"x-cascadia-exits": "off"}}])
def test_a_request_can_decline(how: dict[str, Any]) -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=thinks), FakeEngine("large")
        gate = ScriptedGate({"a " * LONG + "whole": 70.0})
        async with started(small, large), running(thinker(small, large), gate) as up:
            body = {"model": "cascadia", "messages": [{"role": "user", "content": "What is 2+2?"}]}
            answer = await up.client.post(
                "/v1/chat/completions", json=body | how.get("json", {}), headers=how.get("headers", {})
            )
        assert "x-cascadia-exit" not in answer.headers
        assert len(small.requests) == 1
        assert "exits" not in small.requests[0]

    run(main)


@pytest.mark.parametrize(
    "more",
    [
        {"logprobs": True},
        {"min_tokens": 10},
        {"structured_outputs": {"regex": "a+"}},
        {"grammar": "root ::= [a ]+"},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"reasoning_effort": "none"},
        {"continue_final_message": True},
        {"a_field_of_next_year": [1]},
        {
            "messages": [
                {"role": "user", "content": "What is 2+2?"},
                {"role": "assistant", "content": "It is"},
            ]
        },
    ],
)
def test_what_may_be_asked_of_an_answer_as_a_whole_is_asked_in_one_call(more: dict[str, Any]) -> None:
    """Log-probabilities would be of the last piece, a grammar would begin anew in each, an engine would refuse a least
    length above a piece's, and who declines to think would have the answer's beginning for a thought.
    """

    async def main() -> None:
        small, large = FakeEngine(answer=thinks), FakeEngine("large")
        gate = ScriptedGate({"trial 4": 90.0, "a " * LONG + "whole": 70.0})
        async with started(small, large), running(thinker(small, large), gate) as up:
            answer = await up.chat(**more)
        assert answer.status_code == 200
        assert "x-cascadia-exit" not in answer.headers
        assert len(small.requests) == 1
        assert small.requests[0].items() >= more.items()

    run(main)


@pytest.mark.parametrize(
    "more", [{"logprobs": False}, {"seed": 3, "stop": ["x"], "user": "u"}, {"tools": None}, {"n": 1}]
)
def test_what_asks_for_nothing_of_the_kind_leaves_early(more: dict[str, Any]) -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=thinks), FakeEngine("large")
        async with (
            started(small, large),
            running(thinker(small, large), ScriptedGate({"trial 4": 90.0})) as up,
        ):
            answer = await up.chat(**more)
        assert answer.headers["x-cascadia-exit"] == "small@4"

    run(main)


@pytest.mark.parametrize(("refused", "asked"), [("piece", 2), ("trial", 3), ("second piece", 4)])
def test_where_an_engine_refuses_what_exits_ask_the_request_is_served_without(
    refused: str, asked: int
) -> None:
    """A context may have no room for a piece, and still for what is asked for. Exits behind are not tried."""

    async def answers(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        last = body["messages"][-1]
        kind = "trial" if last["content"].endswith(ENDS_THINKING) else "piece" if "max_tokens" in body else ""
        if kind and refused == ("second " if kind == "piece" and last["role"] == "assistant" else "") + kind:
            send(writer, 400, b'{"error": {"message": "max_tokens is too large"}}')
        else:
            await thinks(engine, body, writer)

    async def main() -> None:
        small, large = FakeEngine(answer=answers), FakeEngine("large")
        gate = ScriptedGate({"trial 4": 10.0, "a " * LONG + "whole": 70.0})
        async with started(small, large), running(thinker(small, large), gate) as up:
            answer = await up.chat()
        assert answer.status_code == 200
        assert answer.json()["choices"][0]["message"]["content"] == "a " * LONG + "whole"
        assert len(small.requests) == asked
        assert large.requests == []

    run(main)


@pytest.mark.parametrize("room", [1, 3])
def test_a_piece_cut_short_by_a_full_context_is_the_end(room: int) -> None:
    async def full(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await thinks(engine, body | {"max_tokens": room}, writer)

    async def main() -> None:
        small, large = FakeEngine(answer=full), FakeEngine("large")
        async with (
            started(small, large),
            running(thinker(small, large), ScriptedGate({"a " * room: 60.0})) as up,
        ):
            answer = await up.chat()
        assert answer.json()["choices"][0]["finish_reason"] == "length"
        assert len(small.requests) == 1

    run(main)


@pytest.mark.parametrize(
    "given", [("max_tokens",), ("max_completion_tokens",), ("max_tokens", "max_completion_tokens")]
)
def test_a_piece_has_its_own_limit_whatever_names_the_client_gave_one(given: tuple[str, ...]) -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=thinks), FakeEngine("large")
        async with (
            started(small, large),
            running(thinker(small, large), ScriptedGate({"trial 4": 90.0})) as up,
        ):
            await up.chat(**dict.fromkeys(given, 100))
        assert {small.requests[0].get(name) for name in given} == {4}

    run(main)


def test_behind_the_last_exit_nobody_thinks_on_and_the_stages_own_threshold_decides() -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=thinks), FakeEngine("large")
        gate = ScriptedGate({"trial 4": 40.0})
        exits = (ExitSettings(4, 80.0, last=True),)
        async with started(small, large), running(thinker(small, large, exits=exits), gate) as up:
            answer = await up.chat()
        assert len(small.requests) == 2
        assert answer.headers["x-cascadia-stage"] == "large"
        assert "x-cascadia-exit" not in answer.headers

    run(main)


def test_a_refused_header_and_exits_out_of_order_are_one_line(tmp_path: Path) -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=thinks), FakeEngine("large")
        async with started(small, large), running(thinker(small, large), ScriptedGate({})) as up:
            body = {"model": "cascadia", "messages": [{"role": "user", "content": "hi"}]}
            answer = await up.client.post(
                "/v1/chat/completions", json=body, headers={"x-cascadia-exits": "maybe"}
            )
        assert answer.status_code == 400
        assert "on or off" in answer.json()["error"]["message"]

    run(main)
    file = tmp_path / "router.yaml"
    file.write_text(
        "stages:\n- name: a\n  replicas: [{url: 'http://h:1'}]\n  exits:\n"
        "  - {thinking_tokens: 9, threshold: 1}\n  - {thinking_tokens: 4, threshold: 1}\n"
    )
    with pytest.raises(BadInput, match=r"exits.*not in order"):
        read_settings(file)


def test_a_requests_own_score_min_holds_at_exits() -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=thinks), FakeEngine("large")
        gate = ScriptedGate({"trial 4": 85.0, "trial 8": 92.0})
        async with started(small, large), running(thinker(small, large), gate) as up:
            answer = await up.chat(score_min=90)
        assert answer.headers["x-cascadia-exit"] == "small@8"

    run(main)


def promised(engine: FakeEngine, *more: FakeEngine, shadow: float) -> tuple[StageSettings, ...]:
    first, *others = thinker(engine, *more)
    return (replace(first, promise=ExitPromise(0.5, 0.5, shadow)), *others)


def test_exits_are_in_force_once_certified_and_who_is_drawn_thinks_to_the_end() -> None:
    """A risk of a half is certified after a few requests; until then nobody writes a trial but those drawn."""

    async def main() -> None:
        small, large = FakeEngine(answer=thinks), FakeEngine("large")
        gate = ScriptedGate({"trial 4": 90.0, "trial 8": 10.0, "a " * LONG + "whole": 70.0})
        async with started(small, large), running(promised(small, large, shadow=1.0), gate) as up:
            stage = up.router.cascade.stages[0]
            drawn = [await up.chat(messages=[{"role": "user", "content": f"{n}?"}]) for n in range(6)]
            stage.exits._shadow = 0.0
            left = await up.chat()
            metrics = (await up.client.get("/metrics")).text
        assert all("x-cascadia-exit" not in answer.headers for answer in drawn)
        assert all(
            answer.json()["choices"][0]["message"]["content"] == "a " * LONG + "whole" for answer in drawn
        )
        assert left.headers["x-cascadia-exit"] == "small@4"
        assert len(small.requests) == 6 * 5 + 2
        assert 'cascadia_stage_exit_evidence_total{lost="no",stage="small"} 6.0' in metrics
        assert 'cascadia_stage_exits_total{at="1",stage="small"} 1.0' in metrics

    run(main)


def test_nobody_pays_for_exits_that_are_not_in_force() -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=thinks), FakeEngine("large")
        gate = ScriptedGate({"trial 4": 90.0, "a " * LONG + "whole": 100.0})
        async with started(small, large), running(promised(small, large, shadow=1e-9), gate) as up:
            answer = await up.chat()
        assert "x-cascadia-exit" not in answer.headers
        assert len(small.requests) == 1

    run(main)


@pytest.mark.parametrize("most", [1, 3, 4, 5, 9])
def test_nobody_thinks_for_longer_than_the_request_lets_the_answer_be(most: int) -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=thinks), FakeEngine("large")
        scores = {f"trial {n}": 0.0 for n in (4, 8)}
        gate = ScriptedGate(scores | {"a " * n: 90.0 for n in range(1, LONG)})
        async with started(small, large), running(thinker(small, large), gate) as up:
            answer = await up.chat(max_tokens=most)
        assert answer.json()["usage"]["completion_tokens"] <= most
        assert max(request["max_tokens"] for request in small.requests) <= most
        assert answer.headers["x-cascadia-stage"] == "small"

    run(main)


def test_thinking_that_failed_before_it_answered_has_cost_what_it_took() -> None:
    async def fails_to_answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if body["messages"][-1]["role"] == "assistant":
            send(writer, 500, b"{}")
        else:
            await thinks(engine, body, writer)

    async def main() -> None:
        small, large = FakeEngine(answer=fails_to_answer), FakeEngine("large")
        async with started(small, large), running(thinker(small, large), ScriptedGate({})) as up:
            answer = await up.chat()
            await until(lambda: bool(up.lines))
            assert up.lines[-1]["tokens"] == {"small": 14, "large": 13}
        assert answer.headers["x-cascadia-stage"] == "large"
        assert answer.json()["cascadia"]["usage"]["total_tokens"] == 14 + 13

    run(main)


@pytest.mark.parametrize(
    ("scores", "read"),
    [((85.0, 0.0, 0.0), 2), ((79.0, 60.0, 0.0), 4), ((10.0, 10.0, 70.0), 17)],
    ids=["left at the first", "left at the second", "thought to the end"],
)
@pytest.mark.parametrize("drawn", [False, True], ids=["as it is", "drawn as evidence"])
@pytest.mark.parametrize("thinks_on", [True, False], ids=["thinks on", "ends at the last exit"])
def test_as_many_verdicts_are_asked_for_as_a_plan_counts(
    scores: tuple[float, ...], read: int, drawn: bool, thinks_on: bool
) -> None:
    """The judge of such a plan was one for each whole answer, and none for who left at a trial; those of a request that
    is drawn were not counted either.
    """
    of_all = np.array([*scores, 90.0])[:, None]
    wrote = np.array([6.0, 10.0, 13.0, 9.0])[:, None]
    names = ("small@4", "small@8", "small", "large")
    table = QualityTable(
        ("p",), names, of_all, quality=of_all, input_tokens=np.full((4, 1), 10.0), output_tokens=wrote
    )
    points = Points(table, (0, 0, 0, 1), np.array([2.0, 2.0, 0.0, 0.0])[:, None])
    setting = Setting((80.0, 60.0, ACCEPTS_NONE, ACCEPTS_NONE), (2, 3))
    if not thinks_on:
        setting, read = Setting((80.0, ACCEPTS_NONE, ACCEPTS_NONE, ACCEPTS_NONE), (1, 3)), min(read, 4)
    counted, row = folded(points, setting, float(drawn)), np.zeros(1, np.int64)
    wrote_in_all = counted.as_left(counted.whole_tokens.astype(int), row)  # type: ignore[union-attr]
    gated = np.array([[True], [False]])
    evidence = counted.drawn(row)
    assert counted.judged_of(wrote_in_all, row, gated, evidence)[0, 0] == (
        (17 if thinks_on else 4) if drawn else read
    )

    async def main() -> None:
        small, large = FakeEngine(answer=thinks), FakeEngine("large")
        texts = ("trial 4", "trial 8", "a " * LONG + "whole")
        gate = ScriptedGate(dict(zip(texts, scores, strict=True)))
        exits = EXITS if thinks_on else (EXITS[0], replace(EXITS[1], last=True))
        async with started(small, large):
            first, second = thinker(small, large, exits=exits)
            told = replace(first, promise=ExitPromise(0.5, 0.5, 1.0)) if drawn else first
            async with running((told, second), gate) as up:
                await up.chat()
        assert len(gate.seen) == counted.verdicts_of(row, gated, evidence)[0, 0]

    run(main)


@pytest.mark.parametrize("scores", [(85.0, 0.0, 0.0), (79.0, 60.0, 0.0), (10.0, 10.0, 70.0)])
@pytest.mark.parametrize("drawn", [False, True], ids=["as it is", "drawn as evidence"])
@pytest.mark.parametrize(
    "last", [None, 1, 0], ids=["thinks on", "ends at the second exit", "ends at the first"]
)
def test_the_last_stage_asks_for_as_many_verdicts_as_a_plan_counts(
    scores: tuple[float, ...], drawn: bool, last: int | None
) -> None:
    """None of them was counted."""
    of_all, wrote = np.array(scores)[:, None], np.array([6.0, 10.0, 13.0])[:, None]
    names = ("small@4", "small@8", "small")
    table = QualityTable(
        ("p",), names, of_all, quality=of_all, input_tokens=np.full((3, 1), 10.0), output_tokens=wrote
    )
    end = 2 if last is None else last
    levels = [level if at < end else ACCEPTS_NONE for at, level in enumerate((80.0, 60.0, ACCEPTS_NONE))]
    points = Points(table, (0, 0, 0), np.array([2.0, 2.0, 0.0])[:, None])
    counted, row = folded(points, Setting(tuple(levels), (end,)), float(drawn)), np.zeros(1, np.int64)
    exits = tuple(replace(exit_, last=at == last) for at, exit_ in enumerate(EXITS[: end + 1]))

    async def main() -> None:
        alone = FakeEngine(answer=thinks)
        texts = ("trial 4", "trial 8", "a " * LONG + "whole")
        gate = ScriptedGate(dict(zip(texts, scores, strict=True)))
        async with started(alone):
            (only,) = thinker(alone, exits=exits)
            told = replace(only, promise=ExitPromise(0.5, 0.5, 1.0)) if drawn else only
            settings = RouterSettings((told,), JudgeSettings("certainty"), health=QUICK)
            async with running(settings, gate) as up:
                await up.chat()
        expected = counted.verdicts_of(row, np.zeros((1, 1), np.bool_), counted.drawn(row))
        assert len(gate.seen) == expected[0, 0]

    run(main)


def test_where_all_leave_at_the_first_exit_no_gate_is_needed() -> None:
    """A plan that asks for no verdict names no judge, and its stage thought to the end."""

    async def main() -> None:
        alone = FakeEngine(answer=thinks)
        async with started(alone):
            (only,) = thinker(alone, exits=(replace(EXITS[1], last=True),))
            told = replace(only, promise=ExitPromise(0.5, 0.5, 1.0))
            async with running(RouterSettings((told,), None, health=QUICK)) as up:
                answer = await up.chat()
        assert answer.headers["x-cascadia-exit"] == "small@8"
        assert answer.json()["usage"]["completion_tokens"] == 10

    run(main)


@pytest.mark.parametrize(("drawn", "asked"), [(False, 1), (True, 2)], ids=["as it is", "drawn as evidence"])
def test_the_last_trial_of_the_last_stage_is_not_judged_where_nobody_reads_the_verdict(
    drawn: bool, asked: int
) -> None:
    async def main() -> None:
        alone, gate = FakeEngine(answer=thinks), ScriptedGate({"trial 4": 10.0, "trial 8": 10.0})
        async with started(alone):
            (only,) = thinker(alone, exits=(EXITS[0], replace(EXITS[1], last=True)))
            told = replace(only, promise=ExitPromise(0.5, 0.5, 1.0)) if drawn else only
            settings = RouterSettings((told,), JudgeSettings("certainty"), health=QUICK)
            async with running(settings, gate) as up:
                answer = await up.chat()
        assert answer.headers["x-cascadia-exit"] == "small@8"
        assert len(gate.seen) == asked

    run(main)

"""What a gate makes of a request's own fields: it judges what the client will read, in the form that it asked for."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from cascadia.router.openai.answers import read_document, read_events
from cascadia.router.settings.model import JudgeSettings
from cascadia.testing.engines import FakeEngine, begin_stream, completion, event, send, started
from cascadia.testing.routers import ScriptedGate, run, running, stages, until

COMPLETIONS, RESPONSES = "/v1/completions", "/v1/responses"
PROMPT = {"path": COMPLETIONS, "messages": None, "prompt": "2+2="}


def seeded(engine: FakeEngine, body: dict[str, Any]) -> str:
    """What an engine says that draws by the seed, where it has a choice."""
    greedy = body.get("temperature") == 0 or body.get("top_k") == 1 or body.get("top_p") == 0
    return "0" if greedy else str(body.get("seed", len(engine.requests)))


async def drawn(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": seeded(engine, body)}}
    send(writer, 200, json.dumps({"choices": [choice]}).encode())


@pytest.mark.parametrize(
    "pinned",
    [{"seed": 7}, {"seed": -1}, {"seed": 2**63 - 1}, {"top_k": 1}, {"top_p": 0}, {"seed": 7, "top_k": 1}],
)
def test_nothing_of_the_request_makes_a_stage_agree_with_itself(pinned: dict[str, Any]) -> None:
    """Drawn by the same seed, or from one token, each further answer is the first once more: 100 for nothing."""

    async def main() -> None:
        small, large = FakeEngine(answer=drawn), FakeEngine("4")
        judge = JudgeSettings("agreement", samples=3, temperature=0.8)
        async with started(small, large), running(stages(small, large, thresholds=(50,)), judge=judge) as up:
            first = await up.chat(**pinned)
            asked = list(small.requests)
            again = await up.chat(**pinned)
        assert first.json()["cascadia"]["steps"][0]["score"] == 0.0
        seeds = [body.get("seed") for body in asked]
        assert asked[0].items() >= pinned.items(), "the client's own answer is drawn as it says"
        if "seed" in pinned:
            assert len({*seeds}) == 4
            assert seeds == [body["seed"] for body in small.requests[4:]], "the same verdict each time"
            assert all(-(2**63) <= seed < 2**63 for seed in seeds)
        else:
            assert seeds == [None] * 4
        assert again.json()["cascadia"]["steps"] == first.json()["cascadia"]["steps"]

    run(main)


@pytest.mark.parametrize("more", [{"echo": True}, {"echo": True, "max_tokens": 0}, {"max_tokens": 0}])
def test_who_wants_a_prompt_back_is_served_by_the_last_stage(more: dict[str, Any]) -> None:
    """Its letters and log-probabilities are no answer of the stage's, and would be judged with it."""

    async def main() -> None:
        small, large = FakeEngine("2+2=5"), FakeEngine("4")
        gate = ScriptedGate({"2+2=5": 100.0})
        async with started(small, large), running(stages(small, large, thresholds=(50,)), gate) as up:
            found = await up.chat(**PROMPT, **more)
            plain = await up.chat(**PROMPT, echo=False, max_tokens=5)
        assert (found.headers["x-cascadia-stage"], found.headers["x-cascadia-attempts"]) == ("large", "1")
        assert plain.headers["x-cascadia-stage"] == "small"

    run(main)


def call(name: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


TOOLS = [tool("add"), tool("look")]
SCHEMA = {"type": "object", "required": ["a"]}
GOOD, BAD = '{"a": 1}', '{"b": 1}'

FORMS: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"tool_choice": "auto"}, {"content": "four"}, True),
    ({"tool_choice": "required"}, {"content": "four"}, False),
    ({"tool_choice": "required"}, {"tool_calls": [call("add")]}, True),
    ({"tool_choice": tool("add")}, {"content": "four"}, False),
    ({"tool_choice": tool("add")}, {"tool_calls": [call("add")]}, True),
    ({"tool_choice": tool("add")}, {"tool_calls": [call("look")]}, False),
    ({"tool_choice": "none"}, {"tool_calls": [call("add")]}, False),
    ({"tool_choice": "none"}, {"content": "four"}, True),
    ({"tool_choice": "required", "tools": [*TOOLS, {"type": "web_search"}]}, {"content": "four"}, True),
    ({"tool_choice": {"type": "mcp", "name": "add"}}, {"content": "four"}, True),
    ({"tool_choice": {"type": "function"}}, {"content": "four"}, True),
    ({}, {"tool_calls": [call("add"), call("look")]}, True),
    ({"parallel_tool_calls": False}, {"tool_calls": [call("add"), call("look")]}, False),
    ({"parallel_tool_calls": False}, {"tool_calls": [call("add")]}, True),
    (
        {"functions": [{"name": "add"}], "tools": None},
        {"function_call": {"name": "add", "arguments": "{}"}},
        True,
    ),
    (
        {"functions": [{"name": "add"}], "tools": None},
        {"function_call": {"name": "add", "arguments": "{"}},
        False,
    ),
    ({"structured_outputs": {"choice": ["four", "five"]}}, {"content": "four"}, True),
    ({"structured_outputs": {"choice": ["yes", "no"]}}, {"content": "four"}, False),
    ({"structured_outputs": {"json_object": True}}, {"content": "four"}, False),
    ({"structured_outputs": {"json": SCHEMA}}, {"content": GOOD}, True),
    ({"structured_outputs": {"json": SCHEMA}}, {"content": BAD}, False),
    ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, {"content": GOOD}, True),
    ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, {"content": BAD}, False),
    ({"structured_outputs": {"regex": "[0-9]"}}, {"content": "four"}, True),
    ({"structured_outputs": "odd"}, {"content": "four"}, True),
    ({"response_format": {"type": "json_object", "schema": SCHEMA}}, {"content": GOOD}, True),
    ({"response_format": {"type": "json_object", "schema": SCHEMA}}, {"content": BAD}, False),
]


class Always(ScriptedGate):
    async def score(self, question: str, choice: Any, deadline_s: float) -> float:
        self.seen.append((question, choice.text))
        return 90.0


@pytest.mark.long(in_ci=18)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("asked", "message", "good"), FORMS)
def test_an_answer_that_is_not_what_was_asked_for_is_worth_nothing(
    asked: dict[str, Any], message: dict[str, Any], good: bool, stream: bool
) -> None:
    async def say(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        said = {"role": "assistant", "content": None, **message}
        if not stream:
            send(writer, 200, json.dumps({"choices": [{"index": 0, "message": said}]}).encode())
            return
        begin_stream(writer)
        if "tool_calls" in said:
            said["tool_calls"] = [{"index": at, **each} for at, each in enumerate(said["tool_calls"])]
        event(writer, {"choices": [{"index": 0, "delta": said}]})
        event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")

    async def main() -> None:
        small, large = FakeEngine(answer=say), FakeEngine("4")
        gate = Always({})
        async with started(small, large), running(stages(small, large, thresholds=(50,)), gate) as up:
            found = await up.chat(stream=stream, **{"tools": TOOLS} | asked)
        assert found.headers["x-cascadia-stage"] == ("small" if good else "large")
        assert len(gate.seen) == good, "no judge is asked of what is worth nothing"

    run(main)


def test_a_call_in_the_older_form_is_read_whole_from_its_parts() -> None:
    parts = [{"name": "add", "arguments": ""}, {"arguments": '{"a"'}, {"arguments": ": 1}"}]
    lines = [{"choices": [{"index": 0, "delta": {"function_call": part}}]} for part in parts]
    stream = "".join(f"data: {json.dumps(line)}\n\n" for line in lines) + "data: [DONE]\n\n"
    whole = {
        "choices": [{"index": 0, "message": {"function_call": {"name": "add", "arguments": '{"a": 1}'}}}]
    }

    async def main() -> None:
        held = await read_events(b"text/event-stream", stream.encode())
        document = await read_document(b"application/json", json.dumps(whole).encode())
        assert held.choices[0].calls == document.choices[0].calls == [("add", '{"a": 1}')]

    run(main)


OTHERS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "q"}]}, {"prompt": "easy"}, "q"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "q"}]}, {"prompt": ["a"] * 9}, "q"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "q"}]}, {"input": "easy"}, "q"),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "q"}]},
        {"text": {"format": {"type": "json_object"}}, "echo": True},
        "q",
    ),
    (COMPLETIONS, {"prompt": "q"}, {"input": "easy", "messages": [], "tool_choice": "required"}, "q"),
]


@pytest.mark.parametrize(("path", "asked", "more", "question"), OTHERS)
def test_fields_of_another_endpoint_decide_nothing(
    path: str, asked: dict[str, Any], more: dict[str, Any], question: str
) -> None:
    """An engine looks at none of them: the judge of a chat would be asked about a `prompt` that no model has read."""

    async def main() -> None:
        small, large = FakeEngine("four"), FakeEngine("4")
        gate = ScriptedGate({"four": 90.0})
        async with started(small, large), running(stages(small, large, thresholds=(50,)), gate) as up:
            found = await up.client.post(path, json={"model": "cascadia"} | asked | more)
        assert found.headers["x-cascadia-stage"] == "small"
        assert gate.seen == [(question, "four")]
        assert small.requests[0].items() >= more.items(), "engines get what came"

    run(main)


@pytest.mark.parametrize("kind", ["llm", "embedding"])
@pytest.mark.parametrize(
    ("prompt", "reads"), [([5, 6], False), ([[5, 6], [7]], False), ([" "], False), ("2+2=", True)]
)
def test_a_judge_that_does_not_know_the_question_gives_no_grade(prompt: Any, reads: bool, kind: Any) -> None:
    """Of a prompt of tokens nobody but its model knows any: a grade of the answer alone would be a grade of nothing."""

    async def says(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        count = len(prompt) if isinstance(prompt[0], list) else 1
        send(
            writer,
            200,
            json.dumps({"choices": [{"index": at, "text": "four"} for at in range(count)]}).encode(),
        )

    async def grades(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 200, json.dumps({"score": 90.0}).encode() if kind == "embedding" else completion("9"))

    async def main() -> None:
        small, large, judge = FakeEngine(answer=says), FakeEngine(answer=says), FakeEngine(answer=grades)
        async with started(small, large, judge):
            (own,) = stages(judge)
            settings = JudgeSettings(kind, replace(own, name="judge"), certainty=False)
            async with running(stages(small, large, thresholds=(50,)), judge=settings) as up:
                await until(lambda: up.router.judge is not None and up.router.judge.ready)
                found = await up.chat(path=COMPLETIONS, messages=None, prompt=prompt)
        assert found.headers["x-cascadia-stage"] == ("small" if reads else "large")
        assert found.json()["cascadia"]["steps"][0]["outcome"] == ("accepted" if reads else "judge")
        assert bool(judge.requests) == reads

    run(main)

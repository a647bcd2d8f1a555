"""What the gate wants of an engine beside the client's request changes neither the verdict nor what the client gets."""

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cascadia.router.access.keys import KeyLimits, Keyring
from cascadia.router.openai.requests import read_fields
from cascadia.router.settings.model import JudgeSettings, KeySettings, RouterSettings
from cascadia.testing.engines import FakeEngine, begin_stream, event, send, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages
from tests.unit.router.access.test_keys import made

ALTERNATIVES = {"four": 0.7, "five": 0.2, "six": 0.1}
CERTAINTY = JudgeSettings("certainty")
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
PLAIN = {"role": "user", "content": "What is 2+2?"}
PROMPT = {"messages": None, "prompt": "2+2="}


def most_likely(most: int) -> dict[str, float]:
    return {name: math.log(ALTERNATIVES[name]) for name in list(ALTERNATIVES)[:most]}


def in_chat(most: int) -> dict[str, Any]:
    tops = [{"token": name, "logprob": logprob} for name, logprob in most_likely(most).items()]
    return {"content": [{"token": "four", "logprob": math.log(0.7), "top_logprobs": tops}]}


def in_completions(most: int) -> dict[str, Any]:
    # As vLLM has it: beside the likeliest there is what was written.
    return {
        "tokens": ["four"],
        "token_logprobs": [math.log(0.7)],
        "top_logprobs": [most_likely(max(1, most))],
        "text_offset": [0],
    }


async def as_vllm(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """One token, with as many alternatives as are asked for; refuses log-probabilities of calls that are streamed."""
    if body.get("tools") and body.get("logprobs") and body.get("stream"):
        send(writer, 400, b'{"error": {"message": "logprobs is not supported with tools + stream"}}')
        return
    asked, chat = body.get("logprobs"), bool(body.get("messages"))
    logprobs = None
    if chat and asked:
        logprobs = in_chat(body.get("top_logprobs") or 0)
    elif not chat and asked is not None and asked is not False:
        logprobs = in_completions(asked)
    name = "delta" if body.get("stream") else "message"
    said = {name: {"role": "assistant", "content": "four"}} if chat else {"text": "four"}
    choice = {"index": 0, **said, "logprobs": logprobs, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
    if not body.get("stream"):
        send(writer, 200, json.dumps({"id": "c-1", "choices": [choice], "usage": usage}).encode())
        return
    options = body.get("stream_options") or {}
    begin_stream(writer)
    more = {"usage": usage} if options.get("continuous_usage_stats") and options["include_usage"] else {}
    event(writer, {"id": "c-1", "choices": [choice], **more})
    if options.get("include_usage"):
        event(writer, {"id": "c-1", "choices": [], "usage": usage})
    event(writer, "[DONE]")
    writer.write(b"0\r\n\r\n")


def without_note(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.strip()]
    documents = [json.loads(line) for line in lines if line != "[DONE]"]
    for document in documents:
        document.pop("cascadia", None)
    return documents


ASKED: list[tuple[str, dict[str, Any]]] = [
    *((CHAT, {"logprobs": given}) for given in (None, False, True)),
    *((CHAT, {"logprobs": True, "top_logprobs": most}) for most in (0, 1, 2, 3)),
    *((COMPLETIONS, PROMPT | {"logprobs": given}) for given in (None, False, 0, 1, 2, 3)),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "asked"), ASKED)
def test_however_logprobs_are_asked_for_the_score_is_the_same_and_the_answer_as_asked(
    path: str, asked: dict[str, Any], stream: bool
) -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=as_vllm), FakeEngine("4")
        async with (
            started(small, large),
            running(stages(small, large, thresholds=(10,)), judge=CERTAINTY) as up,
        ):
            more = asked | {"path": path, "stream": stream}
            direct, cascaded = await up.chat("small", **more), await up.chat(**more)
        assert cascaded.headers["x-cascadia-stage"] == "small"
        assert cascaded.headers["x-cascadia-score"] == "50.00", "0.7 less 0.2"
        assert without_note(cascaded.text) == without_note(direct.text)

    run(main)


OPTIONS = [
    None,
    {},
    {"include_usage": False},
    {"include_usage": True},
    {"include_usage": True, "continuous_usage_stats": True},
    {"include_usage": False, "continuous_usage_stats": True},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_a_held_stream_has_the_usage_that_was_asked_for(options: dict[str, Any] | None) -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=as_vllm), FakeEngine("4")
        gate = ScriptedGate({"four": 90.0})
        async with started(small, large), running(stages(small, large, thresholds=(10,)), gate) as up:
            more = {"stream": True, "stream_options": options}
            direct, cascaded = await up.chat("small", **more), await up.chat(**more)
        assert cascaded.headers["x-cascadia-stage"] == "small"
        assert without_note(cascaded.text) == without_note(direct.text)

    run(main)


@pytest.mark.parametrize("on_failure", ["accept", "escalate"])
def test_what_an_engine_refuses_for_the_gates_sake_is_asked_again_without(on_failure: Any) -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=as_vllm), FakeEngine("4")
        judge = JudgeSettings("certainty", on_failure=on_failure)
        async with started(small, large), running(stages(small, large, thresholds=(10,)), judge=judge) as up:
            tools = [{"type": "function", "function": {"name": "add"}}]
            answer = await up.chat(tools=tools, stream=True)
            mistake = await up.chat("small", tools=tools, stream=True, logprobs=True)
        assert answer.status_code == 200
        assert answer.headers["x-cascadia-stage"] == {"accept": "small", "escalate": "large"}[on_failure]
        assert len(small.requests) == 3
        assert mistake.status_code == 400

    run(main)


@pytest.mark.parametrize("model", ["small", "cascadia"])
@pytest.mark.parametrize(("path", "prompt"), [(CHAT, {}), (COMPLETIONS, PROMPT)])
@pytest.mark.parametrize("options", OPTIONS)
def test_a_live_stream_is_counted_by_its_engine_and_tells_it_to_whom_asked(
    options: dict[str, Any] | None, path: str, prompt: dict[str, Any], model: str
) -> None:
    async def main() -> None:
        key, auth = made(limits=KeyLimits(tokens_per_minute=10_000))
        small = FakeEngine(answer=as_vllm)
        async with started(small):
            priced = tuple(replace(stage, price=(1000.0, 1000.0)) for stage in stages(small))
            settings = RouterSettings(priced, None, health=QUICK, keys=KeySettings(Path("k.json")))
            async with running(settings, keyring=Keyring([key])) as up:
                asked = {"stream": True, "stream_options": options, **prompt}
                answer = await up.chat(model, headers=auth, path=path, **asked)
                counted = up.router.metrics.registry.get_sample_value
                taken = counted("cascadia_key_tokens_total", {"key": key.name})
                spent = up.router.access.spending.total_usd(key.id) if up.router.access else 0.0
                asked |= {"messages": [PLAIN]} if path == CHAT else {}
                direct = await up.client.post(small.url + path, json=asked)
        assert small.requests[0]["stream_options"]["include_usage"] is True
        assert without_note(answer.text) == without_note(direct.text)
        (line,) = up.lines
        assert (line["tokens"]["small"], line["written"]["small"], taken) == (11, 1, 11)
        assert spent == pytest.approx(0.011)

    run(main)


async def each_prompt(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """Answers each prompt by itself; as llama.cpp does, streams of several begin with an event that says nothing."""
    prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
    choices = [{"index": at, "text": f"re {prompt}"} for at, prompt in enumerate(prompts)]
    if not body.get("stream"):
        send(writer, 200, json.dumps({"choices": choices}).encode())
        return
    begin_stream(writer)
    event(writer, "null")
    for choice in choices:
        event(writer, {"choices": [choice]})
    event(writer, "[DONE]")
    writer.write(b"0\r\n\r\n")


@pytest.mark.parametrize("stream", [False, True])
def test_the_answer_to_each_of_several_prompts_is_judged_by_its_own(stream: bool) -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=each_prompt), FakeEngine("4")
        gate = ScriptedGate({"re a": 90.0, "re b": 80.0})
        async with started(small, large), running(stages(small, large, thresholds=(10,)), gate) as up:
            found = await up.chat(path=COMPLETIONS, messages=None, prompt=["a", "b"], stream=stream)
            assert found.headers["x-cascadia-stage"] == "small"
            assert found.headers["x-cascadia-score"] == "80.00"
        assert sorted(gate.seen) == [("a", "re a"), ("b", "re b")]

    run(main)


def test_more_prompts_than_are_judged_go_to_the_last_stage() -> None:
    async def main() -> None:
        small, large = FakeEngine(answer=each_prompt), FakeEngine(answer=each_prompt)
        gate = ScriptedGate({"re a": 90.0})
        async with (
            started(small, large),
            running(stages(small, large, thresholds=(10,)), gate, max_judged_choices=4) as up,
        ):
            most = await up.chat(path=COMPLETIONS, messages=None, prompt=["a"] * 4)
            more = await up.chat(path=COMPLETIONS, messages=None, prompt=["a"] * 5)
            twice = await up.chat(path=COMPLETIONS, messages=None, prompt=["a"] * 3, n=2)
        found = [answer.headers["x-cascadia-stage"] for answer in (most, more, twice)]
        assert found == ["small", "large", "large"]
        assert len(gate.seen) == 4

    run(main)


@pytest.mark.parametrize(
    ("prompt", "count"),
    [("a", 1), (["a"], 1), (["a", "b"], 2), ([1, 2, 3], 1), ([[1, 2], [3]], 2), ([], 1), (None, 1)],
)
def test_prompts_are_texts_or_lists_of_tokens(prompt: Any, count: int) -> None:
    fields = read_fields(json.dumps({"model": "m", "prompt": prompt, "max_tokens": 10, "n": 2}).encode())
    assert (fields.prompts, fields.choices, fields.most_output) == (count, 2 * count, 20 * count)


@pytest.mark.parametrize(
    ("given", "limit"), [("12.0", 12), ("0", 0), ("-1", None), ("null", None), ('"12"', 12)]
)
def test_numbers_are_read_as_engines_read_them(given: str, limit: int | None) -> None:
    assert read_fields(b'{"model": "m", "max_tokens": %s}' % given.encode()).output_limit == limit


def test_a_held_stream_without_log_probabilities_stays_byte_for_byte() -> None:
    """vLLM writes `logprobs: null` into each event; nothing of it is read anew."""
    events = [
        {"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "logprobs": None}], "x": 1.50}
        for text in ("fo", "ur")
    ]

    async def nulls(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        for each in events:
            event(writer, each)
        event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")

    async def main() -> None:
        engines = FakeEngine(answer=nulls), FakeEngine("strong")
        gate = ScriptedGate({"four": 90.0})
        async with started(*engines), running(stages(*engines, thresholds=(50,)), gate) as up:
            answer = await up.chat(stream=True)
        assert answer.text == "".join(f"data: {json.dumps(each)}\n\n" for each in events) + "data: [DONE]\n\n"

    run(main)

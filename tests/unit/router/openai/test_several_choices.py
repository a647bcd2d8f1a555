"""The bill of several choices: llama.cpp tells the usage of one alone, which its `timings` beside it give away."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from cascadia.testing.engines import FakeEngine, begin_stream, event, send, started
from cascadia.testing.routers import Running, ScriptedGate, run, running, stages

WORDS = ["four", "fourfour", "four"]
"""Of 4, 8 and 4 letters: of 2, 4 and 2 tokens."""
PRICE = (1.0, 1e6)
"""Dollars a million tokens: what was written is told from what was read."""


def usage(written: int) -> dict[str, Any]:
    return {"prompt_tokens": 10, "completion_tokens": written, "total_tokens": 10 + written}


def as_told(alone: bool) -> Any:
    """An engine that answers with all of `WORDS`, and tells the usage of the first alone, or of all."""
    more: dict[str, Any] = {"timings": {"predicted_n": 2}} if alone else {}

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        kind = "delta" if body.get("stream") else "message"
        choices = [
            {"index": at, kind: {"content": text}} for at, text in enumerate(WORDS[: body.get("n", 1)])
        ]
        if not body.get("stream"):
            told = usage(2) if alone else usage(2 * len("".join(WORDS)) // 4)
            send(writer, 200, json.dumps({"choices": choices, "usage": told, **more}).encode())
            return
        begin_stream(writer)
        asked = (body.get("stream_options") or {}).get("include_usage")
        for choice in choices:
            event(writer, {"choices": [choice]})
            if asked and alone:
                written = len(choice["delta"]["content"]) // 2
                event(writer, {"choices": [], "usage": usage(written), **more})
        if asked and not alone:
            # Twice, as some proxies do: the last is of all.
            event(writer, {"choices": [], "usage": usage(1)})
            event(writer, {"choices": [], "usage": usage(8)})
        event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")

    return answer


def billed(up: Running) -> tuple[int, int]:
    """Tokens read and written that log and metrics have of the one request."""
    up.router.journal.flush()
    (line,) = up.lines
    (stage,) = line["tokens"]
    counted = next(each for each in up.router.stages if each.name == stage).metrics
    read, written = line["tokens"][stage] - line["written"][stage], line["written"][stage]
    assert (counted.input_tokens.value, counted.output_tokens.value) == (read, written)
    return read, written


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("how", ["straight", "held", "live"])
def test_all_choices_are_billed_and_once(how: str, stream: bool, alone: bool) -> None:
    async def main() -> None:
        engine, other = FakeEngine(answer=as_told(alone)), FakeEngine("4")
        order = (engine, other) if how == "held" else (other, engine)
        gate = ScriptedGate({"four": 90.0, "fourfour": 90.0})
        async with started(*order):
            settings = tuple(replace(stage, price=PRICE) for stage in stages(*order, thresholds=(50,)))
            async with running(settings, gate) as up:
                more: dict[str, Any] = {"n": 3, "stream": stream}
                if stream:
                    more["stream_options"] = {"include_usage": True}
                if how == "live":
                    more["min_stage"] = "large"
                answer = await up.chat("large" if how == "straight" else "cascadia", **more)
                assert answer.status_code == 200
                assert billed(up) == (30 if alone else 10, 8)
        if how != "straight":
            lines = [
                json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if "{" in line
            ]
            note = [line["cascadia"] for line in lines if "cascadia" in line][-1]
            assert note["usage"]["completion_tokens"] == 8
            assert note["usage"]["prompt_tokens"] == (30 if alone else 10)

    run(main)


def test_one_choice_is_billed_as_its_engine_says() -> None:
    async def main() -> None:
        engine = FakeEngine(answer=as_told(True))
        async with started(engine), running(stages(engine)) as up:
            await up.chat("small")
            assert billed(up) == (10, 2)

    run(main)

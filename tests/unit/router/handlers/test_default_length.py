"""A stage's default length bounds answers whose requests set none, at any of its APIs; and no others."""

from dataclasses import replace
from typing import Any

import pytest

from cascadia.testing.routers import FakeEngine, Running, ScriptedGate, run, running, stages, started

MESSAGES = [{"role": "user", "content": "What is 2+2?"}]


@pytest.mark.parametrize("model", ["cascadia", "small"])
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, {"max_tokens": 64}),
        ({"max_tokens": 500}, {"max_tokens": 500}),
        ({"max_completion_tokens": 500}, {"max_completion_tokens": 500}),
        ({"max_tokens": None}, {"max_tokens": 64}),
        ({"path": "/v1/completions", "messages": None, "prompt": "2+2="}, {"max_tokens": 64}),
        ({"path": "/v1/responses", "messages": None, "input": "2+2?"}, {"max_output_tokens": 64}),
        (
            {"path": "/v1/responses", "messages": None, "input": "?", "max_output_tokens": 9},
            {"max_output_tokens": 9},
        ),
        # Beside so long a prompt the limit might exceed the context.
        ({"messages": [{"role": "user", "content": "word " * 4000}]}, {}),
    ],
)
def test_only_a_request_without_a_limit_gets_the_stage_s(
    model: str, more: dict[str, Any], expected: dict[str, int]
) -> None:
    async def main() -> None:
        small, large = FakeEngine("4"), FakeEngine("4")
        async with started(small, large):
            settings = stages(small, large, thresholds=(50.0,))
            bounded = tuple(replace(stage, max_tokens=64, max_model_len=4096) for stage in settings)
            async with running(bounded, ScriptedGate({"4": 90.0})) as up:
                await ask(up)
        sent = (small.requests + large.requests)[0]
        limits = ("max_tokens", "max_completion_tokens", "max_output_tokens")
        assert {name: sent[name] for name in limits if sent.get(name) is not None} == expected

    async def ask(up: Running) -> None:
        answer = await up.chat(model, **more)
        # The stand-in does not speak the responses' own words.
        assert answer.status_code == 200 or more["path"] == "/v1/responses", answer.text

    run(main)

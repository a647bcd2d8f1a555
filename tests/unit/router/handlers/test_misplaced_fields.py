"""A field that an endpoint does not have is not sent to its engine, which might do as it says."""

import asyncio
from typing import Any

import pytest

from cascadia.router.openai.requests import WRITING_FIELDS
from cascadia.router.settings.model import ReplicaSettings, StageSettings, Task
from cascadia.testing.engines import FakeEngine, send
from cascadia.testing.routers import run, running, started

WRITING: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_usage": True},
    "n": 2,
    "tools": [],
    "background": True,
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens", "top_logprobs"), 3),
    "logprobs": True,
    "response_format": {"type": "text"},
    "previous_response_id": "resp_1",
    "conversation": "conv_1",
}
QUERY = {"query": "q", "documents": ["d", "e"]}
ONE_PASS: list[tuple[str, dict[str, Any], Task]] = [
    ("/v1/classify", {"input": "2+2?"}, "classify"),
    ("/classify", {"input": ["2", "3"]}, "classify"),
    ("/v1/rerank", QUERY, "rerank"),
    ("/v1/embeddings", {"input": "2+2?"}, "generate"),
]


async def refuses(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    send(writer, 400, b'{"error": {"message": "no"}}')


@pytest.mark.parametrize("model", ["cascadia", "small"])
@pytest.mark.parametrize(("path", "asked", "task"), ONE_PASS)
def test_what_one_pass_answers_is_asked_without_fields_of_writing(
    path: str, asked: dict[str, Any], task: Task, model: str
) -> None:
    async def main() -> None:
        engine = FakeEngine(answer=refuses)
        async with started(engine):
            # The model has its stage's name: nothing else would have the body written anew.
            stage = StageSettings("small", "small", (ReplicaSettings(engine.url),), 0.0, task=task)
            async with running((stage,)) as up:
                await up.client.post(path, json={"model": model, **asked, **WRITING})
        # Embeddings do not cascade.
        asks = (path, model) != ("/v1/embeddings", "cascadia")
        assert [set(body) for body in engine.requests] == ([{"model", *asked}] if asks else [])

    run(main)


def test_a_model_that_writes_is_told_all_of_them() -> None:
    assert set(WRITING) == set(WRITING_FIELDS)

    async def main() -> None:
        engine = FakeEngine("4")
        async with started(engine):
            stage = StageSettings("small", "small", (ReplicaSettings(engine.url),), 0.0)
            async with running((stage,)) as up:
                await up.chat("small", **WRITING)
        assert set(engine.requests[0]) == {"model", "messages", *WRITING}

    run(main)

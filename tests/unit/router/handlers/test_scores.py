"""`/v1/score` goes straight to a stage, in vLLM's shapes and in SGLang's, and is paid for."""

import asyncio
import json
from typing import Any

import pytest

from cascadia.testing.engines import FakeEngine, send, started
from cascadia.testing.routers import run, running, stages

USAGE = {"prompt_tokens": 30, "total_tokens": 30, "completion_tokens": 0}
VLLM = {"object": "list", "data": [{"index": 0, "object": "score", "score": 0.9}], "usage": USAGE}
SGLANG = {"object": "scoring", "scores": [[0.9, 0.1]], "usage": USAGE}


@pytest.mark.parametrize("path", ["/v1/score", "/score"])
@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"text_1": "q", "text_2": ["a", "b"]}, VLLM),
        ({"query": "q", "items": ["a"], "label_token_ids": [1, 2], "apply_softmax": True}, SGLANG),
    ],
)
def test_a_score_is_the_engine_s(path: str, asked: dict[str, Any], answer: dict[str, Any]) -> None:
    async def scores(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 200, json.dumps(answer).encode())

    async def main() -> None:
        engine = FakeEngine(answer=scores)
        async with started(engine), running(stages(engine)) as up:
            found = await up.client.post(path, json={"model": "small"} | asked)
            assert (found.status_code, found.json()) == (200, answer)
            assert engine.requests == [{"model": "small-model"} | asked]
            assert engine.heads[0].startswith("POST /v1/score ")
            refused = await up.client.post(path, json={"model": "cascadia"} | asked)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "not_cascaded")
        assert up.lines[0]["tokens"] == {"small": 30}

    run(main)

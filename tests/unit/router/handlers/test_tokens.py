"""Tokens and vectors go straight to a stage; tokens cost nothing, and are no part of the workload."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from cascadia.router.settings.model import RouterSettings, SampleSettings
from cascadia.testing.engines import Answer, FakeEngine, completion, send, started
from cascadia.testing.routers import QUICK, run, running, stages

CHAT: dict[str, Any] = {
    "messages": [{"role": "user", "content": "hello"}],
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "add_generation_prompt": True,
}
USAGE = {"prompt_tokens": 30, "total_tokens": 30, "completion_tokens": 0}


def says(document: Any, status: int = 200) -> Answer:
    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, status, json.dumps(document).encode())

    return answer


@pytest.mark.parametrize(
    ("path", "asked", "told"),
    [
        ("/tokenize", {"prompt": "hello"}, {"count": 2, "max_model_len": 2048, "tokens": [5, 6]}),
        ("/tokenize", {"prompt": ""}, {"count": 0, "max_model_len": 2048, "tokens": [], "token_strs": None}),
        ("/tokenize", CHAT, {"count": 2, "max_model_len": 2048, "tokens": [5, 6]}),
        ("/tokenize", {"content": "hello"}, {"tokens": [5, 6]}),
        ("/detokenize", {"tokens": [5, 6]}, {"prompt": "hello"}),
        ("/detokenize", {"tokens": []}, {"prompt": ""}),
        ("/detokenize", {"tokens": [5, 6]}, {"content": "hello"}),
        ("/detokenize", {"tokens": [5, 6]}, {"text": "hello"}),
    ],
)
def test_tokens_are_the_engine_s_and_cost_nothing(
    path: str, asked: dict[str, Any], told: dict[str, Any], tmp_path: Path
) -> None:
    async def main() -> None:
        engine = FakeEngine(answer=says(told))
        async with started(engine):
            priced = tuple(replace(stage, price=(1.0, 1.0)) for stage in stages(engine))
            settings = RouterSettings(priced, None, health=QUICK, samples=SampleSettings(tmp_path))
            async with running(settings) as up:
                found = await up.client.post(path, json={"model": "small"} | asked)
                assert (found.status_code, found.json()) == (200, told)
                assert engine.requests == [{"model": "small-model"} | asked], (
                    "with the tools, which are tokens too"
                )
                assert engine.heads[0].startswith(f"POST {path} ")
                assert up.router.stages[0].admission.times.typical_s == 0.0, (
                    "of answers that a model has written"
                )
                cascaded = await up.client.post(path, json={"model": "cascadia"} | asked)
                assert (cascaded.status_code, cascaded.json()["error"]["code"]) == (400, "not_cascaded")
                engine.answer = says(json.loads(completion("hello")))
                await up.chat("small")
        direct, _, chat = up.lines
        assert (direct["api"], direct["status"], direct["tokens"]) == ("tokens", 200, {"small": 0})
        assert chat["tokens"] == {"small": 13}

    run(main)
    for kind in ("requests", "arrivals"):
        assert sum(parquet.read_table(file).num_rows for file in tmp_path.glob(f"{kind}-*.parquet")) == 1


@pytest.mark.parametrize("told", [{"error": {"message": "no", "code": 500}}, {"count": 2}, [1, 2]])
def test_what_is_no_answer_is_a_failure(told: Any) -> None:
    async def main() -> None:
        engine = FakeEngine(answer=says(told))
        async with started(engine), running(stages(engine)) as up:
            found = await up.client.post("/tokenize", json={"model": "small", "prompt": "a"})
            assert (found.status_code, found.json()["error"]["code"]) == (502, "stage_failed")

    run(main)


def test_an_engine_without_a_tokenizer_says_so_and_goes_on_serving() -> None:
    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 200, completion("hello")) if "messages" in body else send(
            writer, 404, b'{"detail":"Not Found"}'
        )

    async def main() -> None:
        engine = FakeEngine(answer=answer)
        async with started(engine), running(stages(engine), breaker_failures=1) as up:
            assert (await up.chat("small")).status_code == 200
            for _ in range(3):
                missing = await up.client.post("/tokenize", json={"model": "small", "prompt": "a"})
                assert (missing.status_code, missing.json()) == (404, {"detail": "Not Found"})
            assert (await up.chat("small")).status_code == 200

    run(main)


def test_vectors_are_the_engine_s_and_paid_for() -> None:
    told = {
        "object": "list",
        "data": [{"index": 0, "object": "pooling", "data": [[0.1, 0.2]]}],
        "usage": USAGE,
    }

    async def main() -> None:
        engine = FakeEngine(answer=says(told))
        async with started(engine), running(stages(engine)) as up:
            found = await up.client.post(
                "/pooling", json={"model": "small", "input": ["a"], "task": "token_embed"}
            )
            assert (found.status_code, found.json()) == (200, told)
            cascaded = await up.client.post("/pooling", json={"model": "cascadia", "input": ["a"]})
            assert cascaded.json()["error"]["code"] == "not_cascaded"
        assert up.lines[0]["tokens"] == {"small": 30}

    run(main)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/pooling"])
@pytest.mark.parametrize("form", ["bytes", "bytes_only"])
def test_an_answer_that_is_no_json_is_not_asked_for_and_closes_no_stage(path: str, form: str) -> None:
    """vLLM has vectors as plain bytes: five such requests would open the breaker to everybody."""
    told = {"object": "list", "data": [{"index": 0, "embedding": "AACAPw=="}], "usage": USAGE}

    async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if (body.get("encoding_format") or "").startswith("bytes"):
            send(writer, 200, b"\x00\x00\x80\x3f", kind="application/octet-stream")
        else:
            send(writer, 200, json.dumps(told).encode())

    async def main() -> None:
        engine = FakeEngine(answer=answer)
        async with started(engine), running(stages(engine), breaker_failures=2) as up:
            for _ in range(3):
                found = await up.client.post(
                    path, json={"model": "small", "input": "a", "encoding_format": form}
                )
                assert (found.status_code, found.json()["error"]["param"]) == (400, "encoding_format")
            for good in ("base64", "float", None):
                asked = {"model": "small", "input": "a", "encoding_format": good, "dimensions": 1}
                found = await up.client.post(path, json=asked)
                assert (found.status_code, found.json()) == (200, told)
                assert engine.requests[-1] == asked | {"model": "small-model"}
            assert len(engine.requests) == 3

    run(main)

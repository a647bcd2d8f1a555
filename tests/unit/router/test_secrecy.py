"""No word of a client's and no key comes out of the router but in the answer to that client.

A word that is nowhere else is put into every part of a request and of an answer, on every way through the router, the
broken ones included; then everything that the router writes or shows is searched for it.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow.parquet import read_table

from cascadia.router.access.keys import Keyring
from cascadia.router.settings.model import (
    AdminSettings,
    JudgeSettings,
    KeySettings,
    ReplicaSettings,
    RouterSettings,
    SampleSettings,
    ShadowSettings,
)
from cascadia.testing.engines import FakeEngine, begin_stream, completion, delta, event, send, started, stream
from cascadia.testing.routers import QUICK, Running, run, running, stages, until
from tests.unit.router.access.test_keys import made
from tests.unit.router.observers.test_tracing import watched

CANARY = "zanzibar"
ANSWER = "quokka"
ENGINE_KEY = "engine-wombat"


def asked(**more: Any) -> dict[str, Any]:
    """A body with the word wherever a client may write one."""
    return {
        "messages": [
            {"role": "system", "content": CANARY},
            {"role": "user", "content": f"say {CANARY}", "name": CANARY},
        ],
        "tools": [{"type": "function", "function": {"name": CANARY, "parameters": {"type": "object"}}}],
        "user": CANARY,
        "metadata": {CANARY: CANARY},
        "stop": [CANARY],
        "unknown": CANARY,
    } | more


async def answer(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """As the request's `how` says, with the word in it."""
    how = body.get("how")
    if how == "refuse":
        send(writer, 400, json.dumps({"error": {"message": CANARY, "code": CANARY}}).encode())
    elif how == "refuse-in-words":
        send(writer, 400, CANARY.encode(), kind="text/plain")
    elif how == "fail":
        send(writer, 500, CANARY.encode(), more=f"x-reason: {CANARY}\r\n")
    elif how == "garbage":
        send(writer, 200, f"{{{CANARY}".encode())
    elif how == "kind":
        send(writer, 200, CANARY.encode(), kind=f"text/{CANARY}")
    elif how == "protocol":
        writer.write(f"HTTP/1.1 {CANARY}\r\n\r\n".encode())
    elif how == "cut":
        begin_stream(writer)
        event(writer, delta(CANARY))
        await writer.drain()
        writer.transport.abort()
    elif how == "tool":
        call = {
            "id": CANARY,
            "type": "function",
            "function": {"name": CANARY, "arguments": f'{{"{CANARY}": 1}}'},
        }
        choice = {"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [call]}}
        send(writer, 200, completion("", choices=[choice]))
    elif body.get("stream"):
        stream(writer, CANARY + ANSWER, body)
    else:
        send(writer, 200, completion(f"{CANARY} {ANSWER}"))


async def judge(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """Grades, or fails with what it was shown."""
    if engine.healthy and len(engine.requests) % 2:
        send(writer, 200, completion("3"))
    else:
        send(writer, 500, json.dumps(body).encode())


WAYS: list[dict[str, Any]] = [
    {},
    *({"how": how} for how in ("refuse", "refuse-in-words", "fail", "garbage", "kind", "protocol", "tool")),
    {"how": "cut", "stream": True},
    {"stream": True},
    {"n": CANARY},
    {"max_stage": CANARY},
    {"score_min": -1},
    {"quality_min": -1},
    {"response_format": {"type": "json_object"}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": CANARY, "schema": {"const": 1}}}},
    {"deadline_ms": 1},
]


@asynccontextmanager
async def router(
    samples: Path | None = None,
) -> AsyncIterator[tuple[Running, dict[str, str], dict[str, str]]]:
    """All of it on; a key that asks and one that looks."""
    small, large, grades = (FakeEngine(answer=answer), FakeEngine(answer=answer), FakeEngine(answer=judge))
    key, header = made("asks")
    admin, other = made("looks", ("admin", "metrics"))
    async with started(small, large, grades):
        told = tuple(
            replace(stage, replicas=tuple(replace(r, api_key=ENGINE_KEY) for r in stage.replicas))
            for stage in stages(small, large, thresholds=(50,))
        )
        graded = replace(
            stages(grades)[0], name="judge", replicas=(ReplicaSettings(grades.url, api_key=ENGINE_KEY),)
        )
        settings = RouterSettings(
            told,
            JudgeSettings("llm", graded),
            health=QUICK,
            keys=KeySettings(Path("k")),
            admin=AdminSettings(),
        )
        if samples is not None:
            kept, again = SampleSettings(samples), ShadowSettings(ratio=1.0, busy=1.0)
            settings = replace(settings, samples=kept, shadow=again)
        async with running(settings, keyring=Keyring([key, admin])) as up:
            yield up, header, other


def secrets_of(header: dict[str, str]) -> str:
    return header["authorization"].removeprefix("Bearer ")


async def shown(up: Running, header: dict[str, str]) -> str:
    """Everything that can be asked for without being the client."""
    paths = ("/health", "/ready", "/version", "/openapi.json", "/metrics", "/admin/state", "/ui", "/ui/state")
    answers = [await up.client.get(path, headers=header) for path in paths]
    return "\n".join(f"{answer.headers}\n{answer.text}" for answer in answers)


def test_no_word_of_a_request_or_an_answer_comes_out_elsewhere(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async def main() -> str:
        async with router(tmp_path) as (up, header, other):
            exporter = watched(up)
            for way in WAYS:
                for model in ("small", "cascadia", CANARY):
                    said = await up.client.post(
                        "/v1/chat/completions",
                        json=asked(model=model, **way),
                        headers=header | {"x-canary": CANARY},
                    )
                    assert said.status_code != 401
            for path in ("/v1/completions", "/v1/embeddings", "/v1/responses"):
                for model in ("small", "cascadia"):
                    body = {"model": model, "prompt": CANARY, "input": CANARY}
                    await up.client.post(path, json=body, headers=header)
            for content in (b"{" + CANARY.encode(), CANARY.encode(), b'{"model": ["' + CANARY.encode()):
                assert (
                    await up.client.post("/v1/chat/completions", content=content, headers=header)
                ).status_code == 400
            await up.client.get(f"/v1/models/{CANARY}", headers=header)
            await up.client.put("/admin/thresholds", json={CANARY: CANARY}, headers=other)
            up.router.journal.flush()
            up.router.events.flush()
            await until(lambda: len(up.lines) >= 3 * len(WAYS))
            tracing = up.router.observers.tracing
            assert tracing is not None
            tracing._processor.force_flush()
            traced = [span.to_json() for span in exporter.get_finished_spans()]
            assert len(traced) > 3 * len(WAYS)
            return json.dumps(up.lines) + await shown(up, other) + "".join(traced)

    texts: list[str] = []

    async def kept() -> None:
        texts.append(await main())

    caplog.set_level(logging.DEBUG, logger="cascadia")
    run(kept)
    printed = capfd.readouterr()
    rows = [row for file in sorted(tmp_path.rglob("*.parquet")) for row in read_table(file).to_pylist()]
    assert len(rows) > len(WAYS)
    everything = "\n".join([*texts, str(rows), caplog.text, printed.out, printed.err])
    assert "cascadia_requests_total" in everything
    assert '"steps"' in everything
    for word in (CANARY, ANSWER, ENGINE_KEY):
        assert word not in everything


def test_an_internal_fault_is_told_without_what_it_was_about(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError(f"cannot read {CANARY}")

    async def main() -> None:
        async with router() as (up, header, _):
            monkeypatch.setattr("cascadia.router.handlers.service.tokens_of", broken)
            said = await up.client.post("/v1/chat/completions", json=asked(model="small"), headers=header)
            assert said.status_code == 500
            assert CANARY not in said.text

    run(main)
    assert "internal error" in caplog.text
    assert "ValueError" in caplog.text
    assert CANARY not in caplog.text


def test_no_key_comes_out_anywhere_and_no_engine_sees_one(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    heads: list[str] = []
    texts: list[str] = []

    async def main() -> None:
        async with router() as (up, header, other):
            wrong = {"authorization": "Bearer " + secrets_of(header)[:-1] + "_"}
            for headers in (header, wrong, other, {"authorization": secrets_of(header)}):
                said = await up.client.post(
                    "/v1/chat/completions", json=asked(model="cascadia"), headers=headers
                )
                texts.append(f"{said.headers} {said.text}")
                said = await up.client.get("/admin/state", headers=headers)
                texts.append(f"{said.headers} {said.text}")
            up.router.journal.flush()
            up.router.events.flush()
            texts.append(json.dumps(up.lines) + await shown(up, other))
            texts.append(repr(up.router.settings) + repr(list(up.router.access.keyring)))  # type: ignore[union-attr]
            for stage in up.router.active_plan.all_stages:
                assert stage.replicas
            keys.extend(secrets_of(h)[-43:-2] for h in (header, other))

    keys: list[str] = []
    caplog.set_level(logging.DEBUG, logger="cascadia")
    run(main)
    printed = capfd.readouterr()
    everything = "\n".join([*texts, *heads, caplog.text, printed.out, printed.err])
    for secret in (*keys, ENGINE_KEY):
        assert secret not in everything

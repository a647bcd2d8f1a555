"""The router as an ASGI application: on uvicorn and inside somebody's FastAPI it serves what the process serves."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from fastapi import FastAPI

from cascadia.clients.processes.ports import free_port
from cascadia.domain.errors import BadInput
from cascadia.router import app
from cascadia.router.server.app import Router
from cascadia.router.server.asgi_app import VARIABLE, RouterApp
from cascadia.router.server.asgi_bridge import head_of
from cascadia.router.settings.model import RouterSettings
from cascadia.testing.engines import FakeEngine, begin_stream, started
from cascadia.testing.routers import QUICK, ScriptedGate, on_uvicorn, run, running, stages, until

SERVERS = pytest.mark.parametrize("serving", [running, on_uvicorn])
BODY = {"model": "small", "messages": [{"role": "user", "content": "Hi"}]}


async def chunks(body: bytes) -> Any:
    for at in range(0, len(body), 7):
        yield body[at : at + 7]


@SERVERS
def test_every_endpoint_answers(serving: Any) -> None:
    async def main() -> None:
        engine = FakeEngine("four")
        async with started(engine), serving(stages(engine)) as up:
            stream = json.dumps(BODY | {"stream": True})
            got = {
                "chat": await up.chat("small"),
                "streamed": await up.client.post("/v1/chat/completions", content=stream),
                "in chunks": await up.client.post(
                    "/v1/chat/completions", content=chunks(json.dumps(BODY).encode())
                ),
                "not JSON": await up.client.post("/v1/chat/completions", content=b"{"),
                "no body": await up.client.post("/v1/chat/completions"),
                "other model": await up.chat("nobody"),
                "models": await up.client.get("/v1/models"),
                "health": await up.client.get("/health"),
                "metrics": await up.client.get("/metrics"),
                "nothing": await up.client.get("/nope?a=%20b"),
                "encoded": await up.client.post(
                    "/v1/chat/completions", content=b"x", headers={"content-encoding": "gzip"}
                ),
            }
            assert {name: answer.status_code for name, answer in got.items()} == {
                "chat": 200,
                "streamed": 200,
                "in chunks": 200,
                "not JSON": 400,
                "no body": 400,
                "other model": 404,
                "models": 200,
                "health": 200,
                "metrics": 200,
                "nothing": 404,
                "encoded": 415,
            }
            assert got["chat"].json()["choices"][0]["message"]["content"] == "four"
            assert got["chat"].headers["x-cascadia-stage"] == "small"
            assert got["streamed"].text.endswith("data: [DONE]\n\n")
            assert got["streamed"].headers["content-type"] == "text/event-stream; charset=utf-8"
            assert all(len(answer.headers.get_list("date")) == 1 for answer in got.values())
            assert "cascadia_in_flight" in got["metrics"].text

    run(main)


@SERVERS
def test_a_cascade_escalates_and_says_so(serving: Any) -> None:
    async def main() -> None:
        small, large = FakeEngine("about four"), FakeEngine("4")
        gate = ScriptedGate({"about four": 20.0})
        async with (
            started(small, large),
            serving(stages(small, large, thresholds=(50.0,)), gate) as up,
        ):
            answer = await up.chat()
            assert answer.headers["x-cascadia-stage"] == "large"
            await until(lambda: bool(up.lines))
            assert up.lines[-1]["stage"] == "large"

    run(main)


@SERVERS
def test_a_client_that_leaves_frees_its_engine(serving: Any) -> None:
    async def main() -> None:
        async def stuck(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
            begin_stream(writer)
            await asyncio.Event().wait()

        engine = FakeEngine(answer=stuck)
        async with started(engine), serving(stages(engine)) as up:
            asking = asyncio.create_task(up.chat("small", stream=True))
            await until(lambda: len(engine.requests) == 1)
            asking.cancel()
            await until(lambda: bool(up.lines))
            assert up.lines[0]["status"] == 499
            assert up.router.stages[0].replicas[0].running == 0

    run(main)


def test_it_may_be_mounted_in_an_application_that_tells_it_of_no_lifespan() -> None:
    async def main() -> None:
        engine = FakeEngine("four")
        async with started(engine):
            router = Router(RouterSettings(stages(engine), None, health=QUICK))
            outer = FastAPI()
            async with RouterApp(lambda: router) as mounted:
                outer.mount("/llm", mounted)
                await until(lambda: router.ready)
                transport = httpx.ASGITransport(outer)
                async with httpx.AsyncClient(transport=transport, base_url="http://h") as client:
                    answer = await client.post("/llm/v1/chat/completions", json=BODY)
                    assert answer.json()["choices"][0]["message"]["content"] == "four"
                    assert (await client.get("/llm/health")).json() == {"status": "ok"}

    run(main)


@pytest.mark.parametrize(
    ("headers", "path"),
    [([(b"a", b"b\r\nhost: evil")], b"/"), ([(b"a\n", b"b")], b"/"), ([], b"/ HTTP/1.1\r\nx: y")],
)
def test_nothing_that_a_server_passes_on_begins_a_line_of_its_own(
    headers: list[tuple[bytes, bytes]], path: bytes
) -> None:
    scope = {"method": "GET", "path": "/", "raw_path": path, "headers": headers}
    with pytest.raises(ValueError, match="in it"):
        head_of(scope)


def test_a_body_of_no_known_length_comes_in_chunks_and_a_length_stays() -> None:
    scope: dict[str, Any] = {"method": "POST", "path": "/a b", "query_string": b"q=1", "headers": []}
    assert head_of(scope) == (
        b"POST /a%20b?q=1 HTTP/1.1\r\nhost: cascadia\r\ntransfer-encoding: chunked\r\n\r\n",
        True,
    )
    known = scope | {"headers": [(b"content-length", b"3"), (b"connection", b"close")]}
    assert head_of(known) == (
        b"POST /a%20b?q=1 HTTP/1.1\r\ncontent-length: 3\r\nhost: cascadia\r\n\r\n",
        False,
    )


def test_without_a_settings_file_it_says_what_to_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(BadInput, match=r"name a router\.yaml"):
        app()


def test_uvicorn_serves_it_by_its_name(tmp_path: Path) -> None:
    async def main() -> None:
        engine = FakeEngine("four")
        async with started(engine):
            stage = {"name": "small", "model": "m", "replicas": [{"url": engine.url}]}
            (tmp_path / "router.yaml").write_text(yaml.safe_dump({"stages": [stage]}))
            port = free_port()
            command = [sys.executable, "-m", "uvicorn", "--factory", "cascadia.router:app", f"--port={port}"]
            environment = os.environ | {VARIABLE: str(tmp_path / "router.yaml")}
            with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
                assert process.stderr is not None
                try:
                    while "running on" not in (line := await asyncio.to_thread(process.stderr.readline)):
                        assert line, "uvicorn has ended"
                    url = f"http://127.0.0.1:{port}"
                    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
                        answer = await client.post("/v1/chat/completions", json=BODY)
                    assert answer.json()["choices"][0]["message"]["content"] == "four"
                finally:
                    process.terminate()
                    await asyncio.to_thread(process.communicate, timeout=60)

    run(main)

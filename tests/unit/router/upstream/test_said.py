"""An engine's own words reach the client whose request it failed at, short and without secrets; the log, no word of
anyone's."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from cascadia.clients.engines.words import QUOTED
from cascadia.router.settings.model import ReplicaSettings, RouterSettings
from cascadia.router.upstream.said import MOST_BYTES, said
from cascadia.testing.engines import FakeEngine, send, started
from cascadia.testing.routers import QUICK, ScriptedGate, run, running, stages

KEY = "wombat-key"
OUT_OF_MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0)"


def told(message: Any) -> bytes:
    return json.dumps({"error": {"message": message, "type": "InternalServerError", "code": 500}}).encode()


@pytest.mark.parametrize(
    ("body", "client", "log"),
    [
        (told(OUT_OF_MEMORY), OUT_OF_MEMORY, "CUDA out of memory. Tried to allocate … (GPU …)"),
        (b'{"object": "error", "message": "EngineDeadError: see trace"}',) + 2 * ("EngineDeadError: see trace",),
        (b'{"detail": "Internal Server Error"}',) + 2 * ("Internal Server Error",),
        (b"Internal Server Error",) + 2 * ("Internal Server Error",),
        # llama.cpp, of a tool call that it cannot read: the model's own text.
        (told("Failed to parse input: Dear Ann, 42"), "Failed to parse input: Dear Ann, 42", "Failed to parse …"),
        (told("สวัสดี 你好 🙂 failed"), "สวัสดี 你好 🙂 failed", "… failed"),
        (b"<html>502 Bad Gateway</html>", "", ""),
        (b"", "", ""),
        (b"{}" + b" " * MOST_BYTES, "", ""),
        (told(f"bad key {KEY}\r\n\x1b[31m"), "bad key … [31m", "bad key …"),
        (told("Authorization: Bearer abc"), "…", "…"),
        (told("api_key=hunter2 is wrong"), "… is wrong", "… is wrong"),
        (told("sk-proj-abcdefgh failed"), "… failed", "… failed"),
        (told("no answer of redis://user:pw@host:1/0 yet"), "no answer of … yet", "no … of …"),
        (told("10.0.0.3:29500, gpu-1.cluster.local:8000 and localhost:80"), "…, … and …", "… and …"),
        (told("x" * 5000), "", ""),
        (told("no " * 5000), ("no " * 67)[:QUOTED], ("no " * 67)[:QUOTED]),
    ],
)  # fmt: skip
def test_words_are_short_and_without_secrets_and_a_log_has_engines_own_alone(
    body: bytes, client: str, log: str
) -> None:
    found = said(500, body, KEY)
    assert found == tuple(f"HTTP 500: {words}" if words else "HTTP 500" for words in (client, log))
    assert said(401, body, KEY, ours=True).client == "HTTP 401"


def test_a_secret_that_is_cut_by_the_end_is_not_told_in_part() -> None:
    for place in range(QUOTED - 40, QUOTED + 5):
        found = said(500, told("no " * (place // 3) + "sk-proj-abcdefghij and more"), KEY)
        assert "sk-" not in found.client


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["small", "cascadia"])
def test_whoever_tried_every_replica_in_vain_is_told_what_engines_say(model: str, stream: bool) -> None:
    async def fails(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 500, told(f"{OUT_OF_MEMORY} at {KEY}"))

    async def main() -> None:
        first, second = FakeEngine(answer=fails), FakeEngine(answer=fails)
        async with started(first, second):
            replicas = tuple(ReplicaSettings(engine.url, api_key=KEY) for engine in (first, second))
            only = replace(stages(first)[0], replicas=replicas)
            async with running(RouterSettings((only,), None, health=QUICK), ScriptedGate({})) as up:
                answer = await up.chat(model, stream=stream)
                assert answer.status_code == 502
                error = answer.json()["error"]
                assert error["code"] == "stage_failed"
                assert f"(status). Its engine answered HTTP 500: {OUT_OF_MEMORY} at …" in error["message"]
                assert len(first.requests) == len(second.requests) == 1
        (line,) = up.lines
        found = line["steps"][0] if model == "cascadia" else line
        assert found["said"] == "HTTP 500: CUDA out of memory. Tried to allocate … (GPU …) at …"

    run(main)


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_without_json_names_its_stage(stream: bool) -> None:
    async def page(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 413, b"<html>413</html>", "text/html")

    async def main() -> None:
        engine = FakeEngine(answer=page)
        async with started(engine), running(stages(engine)) as up:
            found = await up.chat("small", stream=stream)
        assert (found.status_code, found.headers["x-cascadia-stage"]) == (413, "small")
        assert found.json()["error"]["code"] == "refused"

    run(main)

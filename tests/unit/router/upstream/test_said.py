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
        (told(OUT_OF_MEMORY), f"HTTP 500: {OUT_OF_MEMORY}", "HTTP 500: CUDA out of memory. Tried to allocate … (GPU …)"),
        (b'{"object": "error", "message": "EngineDeadError: see stack trace"}',) + 2 * ("HTTP 500: EngineDeadError: see stack trace",),
        (b'{"detail": "Internal Server Error"}',) + 2 * ("HTTP 500: Internal Server Error",),
        (b"Internal Server Error",) + 2 * ("HTTP 500: Internal Server Error",),
        # llama.cpp, of a tool call that it cannot read: the model's own text.
        (told("Failed to parse input at pos 0: Dear Ann, 42"), "HTTP 500: Failed to parse input at pos 0: Dear Ann, 42", "HTTP 500: Failed to parse … at …"),
        (told("สวัสดี 你好 🙂 failed"), "HTTP 500: สวัสดี 你好 🙂 failed", "HTTP 500: … failed"),
        (b"<html>502 Bad Gateway</html>", "HTTP 500", "HTTP 500"),
        (b"", "HTTP 500", "HTTP 500"),
        (b"{}" + b" " * MOST_BYTES, "HTTP 500", "HTTP 500"),
        (told(f"bad key {KEY}\r\n\x1b[31m"), "HTTP 500: bad key … [31m", "HTTP 500: bad key …"),
        (told("Authorization: Bearer abc"), "HTTP 500: …", "HTTP 500: …"),
        (told("api_key=hunter2 is wrong"), "HTTP 500: … is wrong", "HTTP 500: … is wrong"),
        (told("sk-proj-abcdefgh failed"), "HTTP 500: … failed", "HTTP 500: … failed"),
        (told("no answer of redis://user:pw@host:1/0 yet"), "HTTP 500: no answer of … yet", "HTTP 500: no … of …"),
        (told("10.0.0.3:29500, gpu-1.cluster.local:8000 and localhost:80 refused connection"), "HTTP 500: …, … and … refused connection", "HTTP 500: … and … refused connection"),
        (told("x" * 5000), "HTTP 500", "HTTP 500"),
        (told("no " * 5000), f"HTTP 500: {('no ' * 67)[:QUOTED]}", f"HTTP 500: {('no ' * 67)[:QUOTED]}"),
    ],
)  # fmt: skip
def test_words_are_short_and_without_secrets_and_a_log_has_engines_own_alone(
    body: bytes, client: str, log: str
) -> None:
    assert said(500, body, KEY) == (client, log)
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

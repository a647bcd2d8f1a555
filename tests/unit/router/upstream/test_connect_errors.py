"""Why an engine cannot be reached is told apart: to the client and in the log, and it is no answer's end elsewhere."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cascadia.router.settings.model import JudgeSettings, ReplicaSettings, RouterSettings, StageSettings
from cascadia.router.upstream.connect_errors import kind_of
from cascadia.router.upstream.errors import NOT_CONNECTED
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import ScriptedGate, run, running
from tests.unit.router.certificates import certificate

PLAIN = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"


@asynccontextmanager
async def at(context: ssl.SSLContext | None) -> AsyncIterator[str]:
    """Address of a server that speaks plain HTTP where there is no context."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(PLAIN)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def external(name: str, url: str, threshold: float = 0.0) -> StageSettings:
    return StageSettings(name, "m", (ReplicaSettings(url, health_path=None),), threshold)


def test_each_reason_has_a_word_of_its_own_and_a_larger_stage_answers_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expired, old = certificate(tmp_path / "old", "IP:127.0.0.1", until=2021)
    others, other = certificate(tmp_path / "other", "DNS:elsewhere.example")
    _, unknown = certificate(tmp_path / "unknown", "IP:127.0.0.1")
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(expired.read_text() + others.read_text())
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))

    async def main() -> None:
        large = FakeEngine("4")
        async with at(old) as a, at(other) as b, at(unknown) as c, at(None) as d, started(large):
            with socket.create_server(("127.0.0.1", 0)) as closed:
                nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
            urls = {
                "certificate-expired": a,
                "certificate-name": b,
                "certificate-untrusted": c,
                "tls": d,
                "refused": nobody,
                "dns": f"http://{'a' * 64}.example",
            }
            assert set(urls) < NOT_CONNECTED
            stages = (
                *(external(word, url, 50.0) for word, url in urls.items()),
                external("large", large.url),
            )
            settings = RouterSettings(stages, JudgeSettings("certainty"))
            async with running(settings, ScriptedGate({})) as up:
                for word in urls:
                    told = await up.chat(word)
                    assert told.status_code == 502
                    assert told.json()["error"]["message"] == f"The stage '{word}' failed ({word})."
                whole = await up.chat()
                assert (whole.status_code, whole.headers["x-cascadia-stage"]) == (200, "large")
            logged = {line["model"]: line["error"] for line in up.lines if "error" in line}
            assert logged == {word: word for word in urls}

    run(main)


def test_a_name_that_is_not_found_is_told_as_such() -> None:
    assert kind_of(socket.gaierror(socket.EAI_NONAME, "x")) == "dns"
    assert kind_of(OSError("Multiple exceptions")) == "connect"

"""Why a replica's health check fails: in the log once, in metrics and the admin API's state while it does."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cascadia.clients.processes.ports import free_port
from cascadia.router.replicas.health import _Told
from cascadia.router.settings.model import Health, ReplicaSettings, RouterSettings, StageSettings
from cascadia.router.ui.process_state import add_replica, state
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import QUICK, Running, run, running, stages, until
from tests.unit.router.certificates import certificate
from tests.unit.router.upstream.test_connect_errors import at


def told(up: Running) -> list[tuple[str, str | None]]:
    """State and reason of each line about the second replica's health."""
    up.router.events.flush()
    lines = [line for line in up.lines if line.get("event") == "health" and line["replica"] == "small-1"]
    return [(line["state"], line.get("why")) for line in lines]


def watched(url: str, beside: FakeEngine, health: Health = QUICK) -> RouterSettings:
    replicas = (ReplicaSettings(beside.url), ReplicaSettings(url))
    return RouterSettings(
        (StageSettings("small", "m", replicas),), None, health=replace(health, startup_s=0.0)
    )


async def metrics(up: Running) -> list[str]:
    text = (await up.client.get("/metrics")).text
    return [line for line in text.splitlines() if line.startswith("cascadia_replica_unhealthy{")]


def test_a_status_is_told_once_and_that_it_is_well_again() -> None:
    async def main() -> None:
        good, ill = FakeEngine(), FakeEngine(healthy=False)
        async with started(good, ill), running(watched(ill.url, good), all_ready=False) as up:
            replica = up.router.stages[0].replicas[1]
            await until(lambda: replica.state == "down")
            assert told(up) == [("down", "status-503")]
            assert await metrics(up) == [
                'cascadia_replica_unhealthy{replica="small-1",stage="small",why="status-503"} 1.0'
            ]
            shown = state(up.router)["stages"]["small"]["replicas"]
            assert [one["unhealthy"] for one in shown.values()] == ["", "status-503"]
            ill.healthy = True
            await until(lambda: replica.state == "ready")
            assert told(up) == [("down", "status-503"), ("ready", None)]
            assert await metrics(up) == []
            await ill.stop()
            await until(lambda: replica.state == "down")
            await until(lambda: told(up)[2:] == [("down", "refused")])

    run(main)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def cut(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
    await silent(reader, writer)


@pytest.mark.parametrize(("answer", "why"), [(silent, "timeout"), (cut, "reset"), (nonsense, "protocol")])
def test_each_way_to_fail_has_a_word(answer: Any, why: str) -> None:
    async def main() -> None:
        good = FakeEngine()
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        quick = replace(QUICK, timeout_s=0.1)
        async with started(good), running(watched(url, good, quick), all_ready=False) as up:
            await until(lambda: told(up) == [("down", why)])
        server.close()

    run(main)


def test_a_certificate_that_nobody_trusts_is_told_as_such(tmp_path: Path) -> None:
    async def main() -> None:
        good = FakeEngine()
        _, context = certificate(tmp_path / "of", "IP:127.0.0.1")
        async with started(good), at(context) as url, running(watched(url, good), all_ready=False) as up:
            await until(lambda: told(up) == [("down", "certificate-untrusted")])

    run(main)


def test_an_engine_that_starts_is_told_too_once_for_each_reason() -> None:
    async def main() -> None:
        good = FakeEngine()
        async with started(good):
            settings = watched(f"http://127.0.0.1:{free_port()}", good)
            settings = replace(settings, health=replace(QUICK, startup_s=600.0))
            async with running(settings, all_ready=False) as up:
                await until(lambda: told(up) == [("starting", "refused")])

    run(main)


def test_one_that_fails_now_so_now_so_does_not_fill_the_log() -> None:
    async def main() -> None:
        good = FakeEngine()
        async with started(good), running(stages(good)) as up:
            stage = up.router.stages[0]
            lines: list[dict[str, Any]] = []
            said = _Told(stage, stage.replicas[0], lines.append)
            said.well()
            stage.replicas[0].state = "down"
            for _ in range(100):
                for why in ("refused", "timeout"):
                    said.ill(why)
            stage.replicas[0].state = "ready"
            said.well()
            said.well()
            assert [line.get("why") for line in lines] == ["refused", "timeout", None]

    run(main)


def test_of_several_processes_one_that_knows_why_says_it() -> None:
    well = {"running": 1, "room": 4, "state": "ready", "breaker": "closed", "unhealthy": ""}
    both: dict[str, dict[str, Any]] = {}
    for one in (well, well | {"state": "down", "unhealthy": "tls"}):
        add_replica(both, "small-0", dict(one), "room")
    assert (both["small-0"]["state"], both["small-0"]["unhealthy"]) == ("down", "tls")

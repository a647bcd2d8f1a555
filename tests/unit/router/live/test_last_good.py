"""What is in force outlives the process that read it, and a signal that comes during a reload."""

import asyncio
import os
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cascadia.controller.local import router_process
from cascadia.controller.local.members import FleetError
from cascadia.controller.local.router_process import RouterProcess
from cascadia.router.access.keys import Keyring
from cascadia.router.live.last_good import InForce, LastGood
from cascadia.router.live.reload import Reloader
from cascadia.router.settings.model import KeySettings, RouterSettings
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import run, running, stages, until
from tests.unit.router.access.test_keys import made


def in_force(revision: str) -> InForce:
    key, _ = made(revision)
    keys = KeySettings(Path("keys.json"), redis_url="redis://secret@127.0.0.1")
    settings = RouterSettings(stages(FakeEngine()), None, keys=keys, revision=revision)
    return InForce(settings, Keyring([key]), ((1, 2, 3), None))


def test_a_process_that_comes_later_has_what_another_put_in_force() -> None:
    first, second = in_force("first"), in_force("second")
    kept = LastGood(first)
    assert kept.get() is first
    pid = os.fork()
    if pid == 0:
        kept.put(in_force("longer than " * 1000))
        kept.put(second)
        os._exit(0)
    os.waitpid(pid, 0)
    found = kept.get()
    assert (found.settings, found.known) == (second.settings, second.known)
    assert found.settings.keys is not None
    assert found.settings.keys.redis_url == "redis://secret@127.0.0.1"
    assert [key.name for key in found.keyring or ()] == ["second"]


def test_what_a_killed_process_has_written_in_part_is_not_believed() -> None:
    first = in_force("first")
    kept = LastGood(first)
    kept.put(in_force("second"))
    os.truncate(kept._memory, os.fstat(kept._memory).st_size - 1)
    assert kept.get() is first


def test_a_signal_that_comes_during_a_reload_has_the_files_read_once_more() -> None:
    async def main() -> None:
        engine = FakeEngine()
        go, read = threading.Semaphore(0), []
        async with started(engine):
            file = [RouterSettings(stages(engine), None)]

            def load() -> RouterSettings:
                found = file[0]
                read.append(found.revision)
                go.acquire(timeout=60)
                return found

            def prepare(router: Any) -> None:
                router.reloader = Reloader(router, load)

            async with running(stages(engine), prepare=prepare) as up:
                up.router.hang_up()
                await until(lambda: len(read) == 1)
                file[0] = replace(file[0], revision="new")
                for _ in range(5):
                    up.router.hang_up()
                go.release()
                go.release()
                await until(lambda: up.router.settings.revision == "new")
                reloader = up.router.reloader
                assert reloader is not None
                assert reloader.last is not None
                assert (read, reloader.last.signals) == (["", "new"], 6)
                # One that is under way when the router ends keeps it from nothing.
                up.router.hang_up()
                await until(lambda: len(read) == 3)
                async with asyncio.timeout(60):
                    await reloader.stop()
                go.release()

    run(main)


@pytest.mark.parametrize("outcome", ["swapped", "refused"])
def test_the_controller_knows_the_routers_word_by_its_revision_and_signals_and_no_time_of_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    # The router's clock was set back, and it had refused a file before. Then it reads an older one: for another signal.
    documents: list[dict[str, Any]] = [
        {},
        *[{"revision": "a", "reload": {"outcome": "refused", "at": 9e9, "signals": 4}}] * 3,
        {"revision": "a", "reload": {"outcome": "unchanged", "at": 1.0, "signals": 5}},
    ]
    revision = "b" if outcome == "swapped" else "a"
    documents.append({"revision": revision, "reload": {"outcome": outcome, "at": 1.0, "signals": 6}})
    hung_up: list[int] = []

    async def ready(_: RouterProcess) -> dict[str, Any]:
        return documents.pop(0)

    async def main() -> None:
        process: Any = SimpleNamespace(started=1, state="ready", pid=None)
        monkeypatch.setattr(RouterProcess, "_ready_document", ready)
        monkeypatch.setattr(router_process, "_hang_up", lambda _: hung_up.append(len(documents)))
        router = RouterProcess(tmp_path, lambda: None, None, None)  # type: ignore[arg-type]
        await router._reload(process, "b")

    if outcome == "refused":
        with pytest.raises(FleetError, match="refused its new plan"):
            asyncio.run(main())
    else:
        asyncio.run(main())
    assert (documents, hung_up) == ([], [4])

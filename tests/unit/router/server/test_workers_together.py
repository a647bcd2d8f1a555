"""Several processes are one router to who looks at its page or administers it, and to a process that comes later."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop

from cascadia.router.access.keys_file import add_key
from cascadia.router.ui.history import Tick, added
from cascadia.router.ui.merge import Share, read_share, series_of, together, written
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import until
from tests.unit.router.access.test_keys import made
from tests.unit.router.server.test_workers import PROGRAM, once, workers_of

SCOPES = ("inference", "admin", "metrics")


@dataclass
class Several:
    pid: int
    url: str
    admin_url: str
    header: dict[str, str]
    file: Path

    async def call(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        """On a connection of its own, so that the kernel chooses the process."""
        async with httpx.AsyncClient(timeout=60, trust_env=False, headers=self.header) as client:
            answer = await client.request(method, url, **more)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def admin(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        return await self.call(method, f"{self.admin_url}/{path}", **more)

    async def ask(self, **more: Any) -> dict[str, Any]:
        body = {"model": "cascadia", "messages": [{"role": "user", "content": "hi"}]} | more
        return await self.call("POST", f"{self.url}/v1/chat/completions", json=body)

    async def answered_by(self, times: int) -> set[str]:
        answers = await asyncio.gather(*(self.ask() for _ in range(times)))
        return {answer["cascadia"]["stage"] for answer in answers}

    async def state(self) -> dict[str, Any]:
        return await self.admin("GET", "state")

    async def until_states(self, state: str) -> None:
        """All processes are there, and see all replicas so."""

        def holds(found: dict[str, Any]) -> bool:
            replicas = [r["state"] for s in found["stages"].values() for r in s["replicas"].values()]
            return found["processes"] == 2 and set(replicas) == {state}

        await once(holds, self.state)


@asynccontextmanager
async def two(folder: Path, small: list[FakeEngine], large: FakeEngine) -> AsyncIterator[Several]:
    keys, file = folder / "keys.json", folder / "router.yaml"
    key, header = made("all", SCOPES)
    add_key(keys, key, datetime.now(UTC))
    replicas = [{"url": engine.url, "max_concurrency": 10} for engine in small]
    # The statistic of an answer without log-probabilities fails, and is then as told.
    judge = {"kind": "certainty", "on_failure": "accept"}
    stages = [
        {"name": "small", "threshold": 50, "replicas": replicas},
        {"name": "large", "replicas": [{"url": large.url}]},
    ]
    health = {"interval_s": 0.05}
    document = {"stages": stages, "judge": judge, "keys": {"file": str(keys)}, "admin": {"port": 0}}
    file.write_text(json.dumps(document | {"health": health}))
    arguments = ["serve", file, "--port=0", "--json", "--no-log", "--workers=2"]
    process = await asyncio.create_subprocess_exec(PROGRAM, *arguments, stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    try:
        told = json.loads(await process.stdout.readuntil(b"}\n"))
        await until(lambda: len(workers_of(process.pid)) == 2)
        found = Several(process.pid, told["url"], told["admin_url"], header, file)
        await found.until_states("ready")
        yield found
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


@pytest.mark.long
def test_what_is_put_is_put_in_all_processes_and_in_one_that_comes_later(tmp_path: Path) -> None:
    async def main() -> None:
        small, other, large = FakeEngine("s"), FakeEngine("o"), FakeEngine("l")
        async with started(small, other, large), two(tmp_path, [small, other], large) as up:
            assert await up.answered_by(12) == {"small"}
            before = await up.state()
            assert before["stages"]["small"]["replicas"]["small-0"]["max_concurrency"] == 10
            told = await up.admin("PUT", "thresholds", json={"small": 101})
            assert (told["processes"], len(told["plans"])) == (2, 1)
            assert await up.answered_by(12) == {"large"}
            drained = await up.admin("POST", "replicas/small-1/drain?wait_s=60")
            assert (drained["state"], drained["running"]) == ("draining", 0)
            os.kill(workers_of(up.pid)[0], signal.SIGKILL)

            def goes_on(state: dict[str, Any]) -> bool:
                drained = state["stages"]["small"]["replicas"]["small-1"]["state"] == "draining"
                return (state["processes"], state["plans"]) == (2, told["plans"]) and drained

            await once(goes_on, up.state)
            assert await up.answered_by(12) == {"large"}
            await up.admin("PUT", "thresholds", json={"small": 0})
            count = len(other.requests)
            assert await up.answered_by(12) == {"small"}
            assert len(other.requests) == count
            await up.admin("POST", "replicas/small-1/undrain")
            await up.admin("POST", "reload")
            await once(lambda state: state["plans"] == before["plans"], up.state)
            await up.until_states("ready")

    uvloop.run(main())


@pytest.mark.long
def test_a_drain_ends_with_its_replica_and_is_not_that_of_who_has_its_address_later(tmp_path: Path) -> None:
    """Ports and pods' addresses are given again, and a process that comes later does as the others do."""

    async def main() -> None:
        small, other, large = FakeEngine("s"), FakeEngine("o"), FakeEngine("l")
        async with started(small, other, large), two(tmp_path, [small, other], large) as up:
            await up.admin("POST", "replicas/small-1/drain?wait_s=60")
            text = up.file.read_text()
            document = json.loads(text)
            document["stages"][0]["replicas"].pop()
            for file in (json.dumps(document), text):
                up.file.write_text(file)
                await up.admin("POST", "reload")
            await up.until_states("ready")
            before = workers_of(up.pid)
            os.kill(before[0], signal.SIGKILL)
            await until(lambda: len(set(workers_of(up.pid)) - set(before)) == 1)
            await up.until_states("ready")

    uvloop.run(main())


@pytest.mark.long
def test_two_drains_at_one_moment_leave_a_stage_a_replica_whichever_processes_take_them(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        small, other, large = FakeEngine("s"), FakeEngine("o"), FakeEngine("l")
        async with started(small, other, large), two(tmp_path, [small, other], large) as up:

            async def drained(name: str) -> int:
                async with httpx.AsyncClient(timeout=60, trust_env=False, headers=up.header) as client:
                    answer = await client.post(f"{up.admin_url}/replicas/{name}/drain")
                assert answer.status_code == 200 or answer.json()["error"]["code"] == "last_replica"
                return answer.status_code

            for _ in range(20):
                assert sorted(await asyncio.gather(drained("small-0"), drained("small-1"))) == [200, 409]
                await asyncio.gather(*(up.admin("POST", f"replicas/small-{i}/undrain") for i in range(2)))
                await up.until_states("ready")

    uvloop.run(main())


@pytest.mark.long
def test_of_documents_put_at_one_moment_all_processes_have_the_same_one_in_force(tmp_path: Path) -> None:
    async def main() -> None:
        small, large = FakeEngine("s"), FakeEngine("l")
        async with started(small, large), two(tmp_path, [small], large) as up:
            for _ in range(20):
                scores = (10, 20, 30, 40)
                await asyncio.gather(*(up.admin("PUT", "thresholds", json={"small": s}) for s in scores))
                found = await once(lambda state: state["processes"] == 2, up.state)
                assert len(found["plans"]) == 1

    uvloop.run(main())


@pytest.mark.long
def test_the_page_of_any_process_shows_what_all_of_them_did(tmp_path: Path) -> None:
    async def main() -> None:
        small, large = FakeEngine("s"), FakeEngine("l")
        async with started(small, large), two(tmp_path, [small], large) as up:
            await up.answered_by(24)
            look = partial(up.call, "GET", f"{up.url}/ui/state?window=all")
            for _ in range(6):
                state = await once(lambda found: found["processes"] == 2, look)
                assert (state["requests"]["count"], len(state["recent"])) == (24, 24)
                assert state["stages"][0]["accepted"] == 24
                assert {r["name"]: r["room"] for r in state["replicas"]} == {"small-0": 10, "large-0": 256}

    uvloop.run(main())


@pytest.mark.long
def test_a_conversation_goes_on_at_its_stage_whichever_process_gets_the_next_turn(tmp_path: Path) -> None:
    async def main() -> None:
        small, large = FakeEngine("s"), FakeEngine("l")
        async with started(small, large), two(tmp_path, [small], large) as up:
            up.file.write_text(
                json.dumps(json.loads(up.file.read_text()) | {"conversations": {"start": "sticky"}})
            )
            await up.admin("POST", "reload")
            await up.admin("PUT", "thresholds", json={"small": 101})

            async def known_to_all(number: int) -> bool:
                up.header["x-session-id"] = f"hard from the start {number}"
                assert (await up.ask())["cascadia"]["attempts"] == 2
                # Nobody sees the news come, and a process that is asked before it learns by that: so others are asked.
                for _ in range(20):
                    await up.state()
                return {(await up.ask())["cascadia"]["attempts"] for _ in range(16)} == {1}

            # By chance, one process gets all sixteen turns once in 32,768 times.
            assert any([await known_to_all(number) for number in range(6)])

    uvloop.run(main())


def test_shares_add_up_and_come_through_the_socket_as_they_were() -> None:
    key = ("cascadia_x", "small")
    now = {"ready": True, "draining": False, "uptime_s": 1.0, "running": 2, "waiting": {"small": 1}}
    replica = {"name": "small-0", "state": "ready", "unhealthy": "", "breaker": "closed", "running": 1}
    replica |= {"room": 4}
    one = Share(
        Tick(5.0, {key: 2.0}), [(5.0, [1, 0]), (5.0, [2, 0])], now | {"replicas": [replica], "recent": []}
    )
    ill = replica | {"state": "down", "unhealthy": "refused", "breaker": "open"}
    two = Share(Tick(3.0, {key: 3.0}), [(5.0, [0, 2])], now | {"replicas": [ill], "recent": [{"at_s": 1}]})
    assert read_share(written(one)).moved == one.moved
    window = added([one.moved, two.moved])
    assert (window.seconds, window.count("x", "small")) == (5.0, 5.0)
    both = together([read_share(written(share)).now for share in (one, two)])
    assert both["replicas"] == [
        {
            "name": "small-0",
            "state": "down",
            "unhealthy": "refused",
            "breaker": "open",
            "running": 2,
            "room": 8,
        }
    ]
    assert (both["running"], both["waiting"]) == (4, {"small": 2})
    assert [point["per_s"] for point in series_of([one.series, two.series], [1.0])] == [0.2, 0.8]

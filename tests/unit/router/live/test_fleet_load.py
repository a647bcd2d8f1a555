"""Requests under way in all processes: what each tells of itself, and what is assumed of those that are silent."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cascadia.router.access.keys import Keyring
from cascadia.router.live.fleet_load import FORGET_S, SILENT_S, FleetLoad
from cascadia.router.live.gears import LEAST_CAPACITY, START_S, Gears
from cascadia.router.server.peers import Peers
from cascadia.router.settings.model import KeySettings
from cascadia.testing.engines import FakeEngine, started
from cascadia.testing.routers import Running, run, running, until
from tests.unit.router.access.test_keys import made
from tests.unit.router.live.test_gears import NO_GATE, geared, held
from tests.unit.router.redis_servers import fake_redis


def router_of(peers: Peers, running: int, lines: list[dict[str, Any]] | None = None) -> Any:
    """What a load reads of its router; `lines` takes those of its log."""
    heard: list[dict[str, Any]] = [] if lines is None else lines
    return SimpleNamespace(
        metrics=SimpleNamespace(running=running), peers=peers, events=SimpleNamespace(line=heard.append)
    )


class Process:
    """A process with so much under way, one of `count` of its router; `now_s` is its clock."""

    def __init__(self, running: int, count: int = 1) -> None:
        self.now_s = 100.0
        self.lines: list[dict[str, Any]] = []
        peers = Peers(Path("one-router"), 0, count)
        self.load = FleetLoad(router_of(peers, running, self.lines), lambda: self.now_s)

    def total_at(self, now_s: float) -> int:
        self.now_s = now_s
        self.load.add_up()
        return self.load.total


def test_a_process_that_says_nothing_is_taken_to_have_as_much_as_this_one() -> None:
    one = Process(running=7, count=3)
    assert one.total_at(100.0) == 21
    one.load.hear(b"%s 1 2" % one.load._host.encode())
    assert one.total_at(100.0) == 7 + 2 + 7
    one.load.hear(b"%s 2 30" % one.load._host.encode())
    assert one.total_at(100.0 + SILENT_S) == 7 + 2 + 30
    assert one.total_at(100.1 + SILENT_S) == 21


def test_a_host_that_is_silent_counts_as_this_one_does_until_it_is_forgotten_or_says_that_it_goes() -> None:
    one = Process(running=5)
    one.load.hear(b"elsewhere/9 0 40")
    one.load.hear(b"another/9 0 1")
    assert one.total_at(100.0) == 46
    assert one.total_at(100.1 + SILENT_S) == 15
    one.load.hear(b"another/9 0 -1")
    assert one.total_at(100.2 + SILENT_S) == 10
    assert one.total_at(100.1 + FORGET_S) == 5


@pytest.mark.parametrize("message", [b"", b"x", b"host 0 many", b"\xff\xfe 0 1", b"host x 1"])
def test_what_nobody_like_us_wrote_changes_nothing_and_is_told_once(message: bytes) -> None:
    one = Process(running=5)
    one.load.hear(message)
    one.load.hear(message)
    assert one.total_at(100.0) == 5
    assert one.lines == [{"event": "redis", "of": "in-flight", "outcome": "lost", "error": "unreadable"}]
    one.load.hear(b"another/9 0 1")
    assert one.lines[1]["outcome"] == "back"


def fake_replica(*, state: str = "ready", closed: bool = True) -> Any:
    return SimpleNamespace(weight=1.0, state=state, breaker=SimpleNamespace(closed=closed))


def test_a_replica_not_heard_of_yet_is_no_lost_one_while_the_router_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 100.0
    monkeypatch.setattr("cascadia.router.live.gears.monotonic", lambda: now_s)
    small = FakeEngine()
    told = geared([small] * 4, [small] * 2)
    few, none = SimpleNamespace(replicas=[fake_replica(state="starting")] * 4), SimpleNamespace(replicas=[])
    here: Any = [few, none]
    metrics: Any = SimpleNamespace(gear_requests=SimpleNamespace(labels=lambda _: None))
    gears = Gears(told, here, Process(running=0).load, metrics)
    gears.look()
    assert gears.capacity == 1.0
    few.replicas = [fake_replica(state="down"), *few.replicas[1:]]
    gears.look()
    assert gears.capacity == 0.75
    few.replicas, none.replicas = [fake_replica()] * 4, [fake_replica(), fake_replica(state="starting")]
    now_s += START_S
    gears.look()
    assert gears.capacity == 0.5
    # Another plan is no start of the router.
    later = Gears(told, here, Process(running=0).load, metrics)
    later.inherit(gears)
    later.look()
    assert later.capacity == 0.5


def test_capacity_is_the_ready_share_of_the_stage_that_has_lost_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cascadia.router.live.gears.START_S", 0.0)
    small = FakeEngine()
    told = geared([small] * 4, [small] * 2)
    here: Any = [
        SimpleNamespace(replicas=[fake_replica() for _ in range(4)]),
        SimpleNamespace(replicas=[fake_replica() for _ in range(2)]),
    ]
    metrics: Any = SimpleNamespace(gear_requests=SimpleNamespace(labels=lambda _: None))
    gears = Gears(told, here, Process(running=0).load, metrics)
    gears.look()
    assert gears.capacity == 1.0
    here[0].replicas[0].state = "draining"
    gears.look()
    assert gears.capacity == 0.75
    here[1].replicas[0].breaker.closed = False
    gears.look()
    assert gears.capacity == 0.5
    here[1].replicas.clear()
    gears.look()
    assert gears.capacity == LEAST_CAPACITY


def test_routers_on_two_hosts_count_each_others_requests_through_redis() -> None:
    async def main(url: str) -> None:
        go = asyncio.Event()
        small, large = FakeEngine("fine", held(go)), FakeEngine("good")
        key, header = made()
        async with AsyncExitStack() as until_end:
            await until_end.enter_async_context(started(small, large))
            keys = KeySettings(Path("keys.json"), redis_url=url)
            ups: list[Running] = []
            for number in range(2):
                # In one process here: what tells them apart is their host.
                def prepare(router: Any, number: int = number) -> None:
                    router.load._host = f"host-{number}"

                told = replace(geared(small, large), keys=keys)
                up = running(told, NO_GATE, keyring=Keyring([key]), prepare=prepare)
                ups.append(await until_end.enter_async_context(up))
            asked = [asyncio.create_task(ups[0].chat("small", headers=header)) for _ in range(5)]
            await until(lambda: len(small.requests) == 5)
            await until(lambda: ups[1].router.load.total == 5)
            answer = asyncio.create_task(ups[1].chat(headers=header))
            await until(lambda: len(small.requests) == 6)
            go.set()
            assert (await answer).headers["x-cascadia-gear"] == "1"
            await asyncio.gather(*asked)
            await until(lambda: ups[1].router.load.total == 0)

    with fake_redis() as url:
        run(lambda: main(url))


def test_the_processes_of_a_router_tell_each_other_at_their_sockets(tmp_path: Path) -> None:
    async def main() -> None:
        both = [Peers(tmp_path, number, 2) for number in range(2)]
        loads = []
        for peers, under_way in zip(both, (3, 20), strict=True):
            loads.append(FleetLoad(router_of(peers, under_way)))
            await peers.start()
        assert loads[0].total == 6
        loads[0].tell()
        # Whoever is told answers: one question tells both.
        await until(lambda: len(loads[1]._heard) == len(loads[0]._heard) == 1)
        for load in loads:
            load.add_up()
            assert load.total == 23
        for load, peers in zip(loads, both, strict=True):
            await load.stop()
            await peers.stop()

    run(main)

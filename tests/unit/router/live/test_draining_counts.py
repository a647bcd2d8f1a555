"""A process that drains and its successor have one place and two counts; who cannot be heard is not forgotten."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

from cascadia.router.live.fleet_load import FORGET_S, SILENT_S, FleetLoad
from cascadia.router.server.peers import Peers
from cascadia.testing.routers import run, until
from tests.unit.router.live.test_fleet_load import Process, router_of


def processes(folder: Path, *places: tuple[int, int], count: int = 2) -> list[tuple[Peers, FleetLoad]]:
    """Each at its place, with so many requests under way."""
    found = []
    for number, running in places:
        peers = Peers(folder, number, count)
        found.append((peers, FleetLoad(router_of(peers, running))))
    return found


def test_who_drains_counts_beside_its_successor_until_it_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        (other, beside), (old, drains), (new, succeeds) = processes(tmp_path, (0, 3), (1, 20), (1, 5))
        for peers in (other, old, new):
            await peers.start()
        loads = (beside, drains, succeeds)
        for load in loads:
            load.tell()
        await until(lambda: all(len(load._heard) == 2 for load in (beside, succeeds)))
        for _ in range(3):  # whoever spoke last
            for load in loads:
                load.tell()
                assert load._telling is not None
                await load._telling
                beside.add_up()
                succeeds.add_up()
                assert (beside.total, succeeds.total) == (28, 28)
        await drains.stop()
        for load in (beside, succeeds):
            load.add_up()
            assert load.total == 8
        for peers in (other, old, new):
            await peers.stop()

    run(main)


def test_a_killed_process_is_one_that_is_silent_until_its_successor_speaks() -> None:
    one = Process(running=7, count=2)
    host = one.load._host.encode()
    one.load.hear(b"%s 1 1001 30" % host)
    assert one.total_at(100.0) == 37
    assert one.total_at(100.1 + SILENT_S) == 14
    one.load.hear(b"%s 1 1002 0" % host)
    assert one.total_at(100.1 + SILENT_S) == 7
    # Of this place too: whoever was here before.
    one.load.hear(b"%s 0 1003 4" % host)
    assert one.total_at(100.2 + SILENT_S) == 11
    assert one.total_at(100.3 + 2 * SILENT_S) == 14


def test_of_two_that_fell_silent_at_one_place_one_is_taken_to_be_there() -> None:
    one = Process(running=5)
    for process in (1, 2):
        one.load.hear(b"elsewhere 0 %d 40" % process)
    assert one.total_at(100.0) == 85
    assert one.total_at(100.1 + SILENT_S) == 10


def test_while_redis_is_lost_no_host_is_forgotten_and_after_it_each_has_its_time() -> None:
    one = Process(running=5)
    listening = asyncio.Event()
    one.load._channel = SimpleNamespace(listening=listening)  # type: ignore[assignment]
    listening.set()
    one.load.hear(b"elsewhere 0 9 40")
    assert one.total_at(100.0) == 45
    listening.clear()
    for minute in range(1, 11):
        assert one.total_at(100.0 + minute * FORGET_S) == 10
    listening.set()
    assert one.total_at(100.0 + 10.9 * FORGET_S) == 10
    one.load.hear(b"elsewhere 0 9 2")
    assert one.total_at(100.0 + 10.9 * FORGET_S) == 7
    assert one.total_at(100.0 + 12 * FORGET_S) == 5


def test_a_version_before_is_heard_and_nobody_has_less_than_nothing_under_way() -> None:
    one = Process(running=5)
    one.load.hear(b"elsewhere/9 0 40")
    assert one.total_at(100.0) == 45
    for nonsense in (b"another 0 1 -2", b"another 0 1 2 3", b"another 0 x 3"):
        one.load.hear(nonsense)
    assert one.total_at(100.0) == 45

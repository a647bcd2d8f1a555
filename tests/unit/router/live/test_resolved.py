"""Replicas behind one name: each address is one, they come and go with what DNS says, and no request is lost by it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from cascadia.domain.errors import BadInput
from cascadia.router.live.dns_watch import addresses_of
from cascadia.router.replicas.dns_names import name_at, names_of, resolved
from cascadia.router.server.app import Router
from cascadia.router.settings.file import check_settings
from cascadia.router.settings.model import JudgeSettings, ReplicaSettings, RouterSettings, StageSettings
from cascadia.testing.engines import FakeEngine, completion, send, started
from cascadia.testing.routers import QUICK, Running, run, running, until

NAME = "engines.test"
OFTEN = replace(QUICK, resolve_s=0.02)


def behind(port: int, **more: Any) -> ReplicaSettings:
    return ReplicaSettings(f"http://{NAME}:{port}", resolve="dns", **more)


class Dns:
    """What it says of every name."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.asked = 0

    async def lookup(self, _: str) -> tuple[str, ...]:
        self.asked += 1
        return self.addresses

    async def told(self, *addresses: str) -> None:
        """It says something else, and has been asked since."""
        self.addresses = addresses
        before = self.asked
        await until(lambda: self.asked >= before + 2)


@asynccontextmanager
async def pods(count: int, **more: Any) -> AsyncIterator[list[FakeEngine]]:
    """Engines at addresses of their own and one port, as pods are."""
    first = FakeEngine("0", **more)
    async with started(first):
        others = [
            FakeEngine(str(i), port=first.port, host=f"127.0.0.{i + 1}", **more) for i in range(1, count)
        ]
        async with started(*others):
            yield [first, *others]


@asynccontextmanager
async def served(dns: Dns, port: int, **limits: Any) -> AsyncIterator[Running]:
    def prepare(router: Router) -> None:
        router.resolver.lookup = dns.lookup

    settings = RouterSettings((StageSettings("small", "m", (behind(port),)),), None, health=OFTEN)
    async with running(settings, prepare=prepare, **limits) as up:
        yield up


def at(up: Running) -> set[str | None]:
    """Addresses of the replicas that are ready."""
    return {r.address for r in up.router.stages[0].replicas if r.state == "ready"}


def test_an_address_is_a_replica_with_the_share_and_the_room_of_its_entry() -> None:
    stage = StageSettings(
        "small", "m", (behind(80, share=0.5, max_concurrency=3), ReplicaSettings("http://h:1"))
    )
    judge = JudgeSettings("ensemble", members=(JudgeSettings("llm", replace(stage, name="judge-0")),))
    settings = RouterSettings((stage,), judge)
    assert names_of(settings) == {NAME}
    found = resolved(settings, {NAME: ("10.0.0.1", "10.0.0.2")})
    assert found.judge is not None
    assert found.judge.members[0].stage is not None
    for one in (found.stages[0], found.judge.members[0].stage):
        assert [(r.address, r.share, r.max_concurrency) for r in one.replicas] == [
            ("10.0.0.1", 0.5, 3),
            ("10.0.0.2", 0.5, 3),
            (None, 1.0, 256),
        ]
    assert resolved(settings, {}) == settings


def test_a_replicas_name_is_that_of_its_address_in_every_router_and_does_not_tell_it() -> None:
    name = name_at("small", "http://h:1", "10.0.0.1")
    assert name == name_at("small", "http://h:1", "10.0.0.1") != name_at("small", "http://h:1", "10.0.0.2")
    assert name.startswith("small-")
    assert "10.0.0.1" not in name


def test_a_name_that_is_there_twice_is_refused_since_shares_are_of_each_address() -> None:
    settings = RouterSettings((StageSettings("small", "m", (behind(80), behind(80))),), None)
    with pytest.raises(BadInput, match="resolve one name twice"):
        check_settings(settings, "router.yaml")


def test_each_address_has_its_own_health_and_gets_its_part() -> None:
    async def main() -> None:
        async with (
            pods(3) as engines,
            served(Dns("127.0.0.1", "127.0.0.2", "127.0.0.3"), engines[0].port) as up,
        ):
            await until(lambda: len(at(up)) == 3)
            engines[1].healthy = False
            await until(lambda: len(at(up)) == 2)
            before = len(engines[1].requests)
            for _ in range(20):
                assert (await up.chat("small")).status_code == 200
            assert len(engines[1].requests) == before
            assert engines[0].requests
            assert engines[2].requests
            assert f"host: {NAME}:{engines[0].port}" in engines[2].heads[0]

    run(main)


def test_pods_come_and_go_under_load_and_no_request_is_lost() -> None:
    async def main() -> None:
        dns = Dns("127.0.0.1")
        async with pods(4) as engines, served(dns, engines[0].port) as up:
            over = asyncio.Event()

            async def client() -> int:
                asked = 0
                while not over.is_set():
                    assert (await up.chat("small")).status_code == 200
                    asked += 1
                return asked

            clients = [asyncio.create_task(client()) for _ in range(4)]
            for these in ((1, 2), (2, 3, 4), (4,), (1, 2, 3, 4), (2,)):
                await dns.told(*(f"127.0.0.{i}" for i in these))
                await until(lambda these=these: at(up) == {f"127.0.0.{i}" for i in these})  # type: ignore[misc]
                # Whoever comes serves before it goes.
                await until(lambda these=these: all(engines[i - 1].requests for i in these))  # type: ignore[misc]
            over.set()
            asked = await asyncio.gather(*clients)
            assert sum(asked) == sum(len(engine.requests) for engine in engines)
            up.router.events.flush()
            events = [line["addresses"] for line in up.lines if line.get("event") == "resolved"]
            assert events[-1] == {NAME: ["127.0.0.2"]}

    run(main)


def test_an_address_that_vanishes_finishes_what_it_has() -> None:
    async def main() -> None:
        go = asyncio.Event()

        async def slowly(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
            if body.get("wait"):
                await go.wait()
            send(writer, 200, completion(engine.text))

        dns = Dns("127.0.0.1")
        async with pods(2, answer=slowly) as engines, served(dns, engines[0].port) as up:
            asking = asyncio.create_task(up.chat("small", wait=True))
            await engines[0].arrived.wait()
            await dns.told("127.0.0.2")
            await until(lambda: at(up) == {"127.0.0.2"})
            ready = (await up.client.get("/ready")).json()
            assert list(ready["leaving"].values()) == [1]
            assert (await up.chat("small")).json()["choices"][0]["message"]["content"] == "1"
            go.set()
            assert (await asking).json()["choices"][0]["message"]["content"] == "0"
            await until(lambda: not list(up.router.departing))

    run(main)


def test_a_name_without_addresses_keeps_those_it_had_and_health_says_which_are_there() -> None:
    async def main() -> None:
        dns = Dns("127.0.0.1", "127.0.0.2")
        async with pods(2) as engines, served(dns, engines[0].port) as up:
            await until(lambda: len(at(up)) == 2)
            await dns.told()
            assert len(at(up)) == 2
            await engines[1].stop()
            await until(lambda: at(up) == {"127.0.0.1"})
            assert (await up.chat("small")).status_code == 200

    run(main)


def test_requests_wait_for_a_name_that_has_no_address_yet() -> None:
    async def main() -> None:
        dns = Dns()
        async with pods(2) as engines:
            settings = RouterSettings(
                (StageSettings("small", "m", (behind(engines[0].port),)),), None, health=OFTEN
            )
            router = Router(settings)
            router.resolver.lookup = dns.lookup
            await router.start()
            try:
                stage = router.stages[0]
                assert [(r.name, r.state) for r in stage.replicas] == [("small-0", "starting")]
                await dns.told("127.0.0.2")
                await until(lambda: [r.state for r in router.stages[0].replicas] == ["ready"])
            finally:
                await router.stop()

    run(main)


def test_a_reload_keeps_the_replicas_that_dns_gave() -> None:
    async def main() -> None:
        dns = Dns("127.0.0.1", "127.0.0.2")
        async with pods(2) as engines, served(dns, engines[0].port) as up:
            await until(lambda: len(at(up)) == 2)
            before = list(up.router.stages[0].replicas)
            digest = up.router.digest
            stage = replace(up.router.settings.stages[0], threshold=7.0)
            up.router.swap(replace(up.router.settings, stages=(stage,)))
            assert up.router.stages[0].replicas == before
            assert up.router.digest != digest
            await dns.told("127.0.0.2")
            await until(lambda: at(up) == {"127.0.0.2"})
            assert up.router.stages[0].replicas[0] is before[1]
            assert up.router.stages[0].settings.threshold == 7.0

    run(main)


def test_the_machines_own_resolver_is_asked_and_one_family_taken() -> None:
    async def main() -> None:
        assert await addresses_of("localhost") in (("127.0.0.1",), ("::1",))
        assert await addresses_of("127.0.0.9") == ("127.0.0.9",)
        assert await addresses_of("no-such-name.invalid") == ()

    run(main)

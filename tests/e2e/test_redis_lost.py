"""A Redis that is killed and started anew under load: no request is lost, and limits and loads are right again.

Two routers, one of two processes, with matching, gears and shared limits. The Redis is Debian's `redis-server`; where
there is none this is skipped.
"""

import asyncio
import json
from collections import Counter
from pathlib import Path

import httpx
import pytest

from cascadia.clients.processes.ports import free_port
from tests.e2e.chaos_fleet import Process, fleet
from tests.e2e.chaos_load import Kind, Load
from tests.e2e.commands import Cascadia
from tests.e2e.test_trust import key_of, metric, redis, statuses, until

__all__ = ["redis"]

AWAY_S = 10.0
GEARS = [{"max_in_flight": 6, "stages": ["small"]}, {"stages": ["small"]}]
"""Nobody but who is held goes to the large stage."""
KINDS = (
    Kind("small", stream=False),
    Kind("cascadia", stream=True),
    Kind("cascadia", stream=False, hard=True),
)
HELD = 5
PARTS = 6
"""What a process shares: loads, conversations, two channels of pages, limits and spend."""


async def hold(port: int, header: dict[str, str], count: int) -> "list[asyncio.Task[int]]":
    """Requests that wait at the large stage, whose engines hang."""

    async def one() -> int:
        body = {"model": "large", "messages": [{"role": "user", "content": "x"}]}
        async with httpx.AsyncClient(trust_env=False, timeout=120, headers=header) as client:
            return (await client.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body)).status_code

    return [asyncio.create_task(one()) for _ in range(count)]


def test_no_request_is_lost_with_redis_and_all_is_right_again_after_it(
    tmp_path: Path, cascadia: Cascadia, redis: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = tmp_path / "keys.json"
    looks = key_of(cascadia, keys, "--name", "looks", "--scope", "metrics")
    load = key_of(cascadia, keys, "--name", "load", "--requests-per-minute", "1000000")
    single = key_of(cascadia, keys, "--name", "single", "--concurrent", str(HELD))
    minute = [key_of(cascadia, keys, "--name", f"m{i}", "--requests-per-minute", "30") for i in range(2)]
    shared = {"file": str(keys), "redis_url": f"redis://127.0.0.1:{redis.port}/0", "redis_timeout_s": 0.2}
    limits = {"first_byte_s": 100.0, "total_s": 120.0}
    told = {"keys": shared, "gears": GEARS, "limits": limits, "health": {"timeout_s": 30.0}}
    matching = {"balancing": "matching", "latency_max_s": 30}
    with fleet(tmp_path, settings=told, stages=matching) as up:
        other = up.router(free_port(), 1, ["--workers", "2"])
        up.routers.append(other)
        other.start()
        ports = [up.port, other.port]

        def in_flight(port: int) -> set[float]:
            """As each of its processes counts it."""
            text = httpx.get(f"http://127.0.0.1:{port}/metrics", headers=looks, trust_env=False).text
            lines = [line for line in text.splitlines() if line.startswith("cascadia_fleet_in_flight")]
            return {float(line.split()[-1]) for line in lines}

        async def main() -> Counter[str]:
            headers = f"authorization: {load['authorization']}\r\n"
            counts: Counter[str] = Counter()
            async with (
                Load(up.port, KINDS, headers=headers) as one,
                Load(other.port, KINDS, headers=headers) as two,
            ):
                await asyncio.sleep(2)
                redis.kill()
                await asyncio.sleep(AWAY_S)
                assert metric(up.port, looks, "cascadia_shared_limit_failures_total") > 0
                for engine in up.engines["large"]:
                    await asyncio.to_thread(engine.told, "hangs")
                # Under way at one router alone, which Redis was never told.
                held = await hold(up.port, single, HELD)
                await asyncio.sleep(1)
                await asyncio.to_thread(redis.start)
                await asyncio.sleep(3)
                for port in (other.port, up.port):
                    assert set(await asyncio.to_thread(statuses, [port], single, 2)) == {429}
            for seen in (one.seen, two.seen):
                counts += seen.counts
            # Each process of both counts them: one as its own, the others as they are told.
            await asyncio.to_thread(until, lambda: all(in_flight(port) == {HELD} for port in ports))
            for engine in up.engines["large"]:
                await asyncio.to_thread(engine.told, "fine")
            for task in held:
                task.cancel()
            await asyncio.gather(*held, return_exceptions=True)
            await asyncio.to_thread(until, lambda: all(in_flight(port) == {0} for port in ports))
            assert set(await asyncio.to_thread(statuses, ports, single, 4)) == {200}
            return counts

        counts = asyncio.run(main())
        for header in minute:
            assert 30 <= statuses(ports, header, 30).count(200) <= 45
        lines = [
            json.loads(line)
            for router in up.routers
            for line in router.log.read_text().splitlines()
            if '"event":"redis"' in line
        ]
        with capsys.disabled():
            print(f"\n{counts}; {len(lines)} lines about Redis: {Counter(line['outcome'] for line in lines)}")
        assert set(counts) == {"answered"}
        assert 0 < len(lines) <= 3 * PARTS * 2
        assert not [
            line
            for router in up.routers
            for line in router.log.read_text().splitlines()
            if "Traceback" in line
        ]

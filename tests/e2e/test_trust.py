"""Keys over several routers with a real Redis, and plans that change while real processes serve.

The Redis is Debian's `redis-server`; where there is none its tests are skipped.
"""

import asyncio
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from cascadia.clients.processes.ports import free_port
from tests.e2e.chaos_fleet import Fleet, Process, fleet
from tests.e2e.chaos_load import Load, Seen
from tests.e2e.commands import Cascadia

PER_MINUTE = 30
RELOADS = 100


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Process]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server on this machine")
    port = free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    found = Process("redis", port, [*command, "--dir", str(tmp_path)], tmp_path / "redis.log")
    found.start()
    try:
        yield found
    finally:
        found.kill()


def key_of(cascadia: Cascadia, file: Path, *options: str) -> dict[str, str]:
    """A new key in `file`, as a header."""
    key = cascadia("keys", "add", file, *options, "--json").document["key"]
    return {"authorization": f"Bearer {key}"}


def until(what: Callable[[], bool], seconds: float = 30.0) -> None:
    until_s = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until_s
        time.sleep(0.05)


def statuses(ports: list[int], header: dict[str, str], count: int) -> list[int]:
    """Of `count` requests to each port, in turn."""
    body = {"model": "small", "messages": [{"role": "user", "content": "x"}]}
    with httpx.Client(trust_env=False, timeout=30, headers=header) as client:
        return [
            client.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body).status_code
            for _ in range(count)
            for port in ports
        ]


def running(port: int) -> int:
    """Requests that the router has with engines of the large stage."""
    stages = httpx.get(f"http://127.0.0.1:{port}/ready", trust_env=False).json()["stages"]
    return sum(replica["running"] for replica in stages["large"]["replicas"].values())


def metric(port: int, header: dict[str, str], start: str) -> float:
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", headers=header, trust_env=False).text
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(start))


def test_two_routers_hold_one_limit_and_each_its_own_while_redis_is_away(
    tmp_path: Path, cascadia: Cascadia, redis: Process
) -> None:
    keys = tmp_path / "keys.json"
    rate = ("--requests-per-minute", str(PER_MINUTE))
    headers = [key_of(cascadia, keys, "--name", name, *rate) for name in ("a", "b", "c")]
    looks = key_of(cascadia, keys, "--name", "looks", "--scope", "metrics")
    told = {
        "keys": {"file": str(keys), "redis_url": f"redis://127.0.0.1:{redis.port}/0", "redis_timeout_s": 0.2}
    }
    with fleet(tmp_path, settings=told) as up:
        other = up.router(free_port(), 1, [])
        up.routers.append(other)
        other.start()
        ports = [up.port, other.port]
        together = statuses(ports, headers[0], PER_MINUTE)
        # What the bucket gains during the test is let in, too.
        assert PER_MINUTE <= together.count(200) <= PER_MINUTE + 15
        assert set(together) == {200, 429}
        assert metric(up.port, looks, "cascadia_shared_limit_failures_total") == 0

        redis.kill()
        alone = statuses(ports, headers[1], PER_MINUTE)
        assert alone.count(200) == 2 * PER_MINUTE
        assert metric(up.port, looks, "cascadia_shared_limit_failures_total") > 0

        redis.start()
        time.sleep(2.5)  # the routers look for it again
        again = statuses(ports, headers[2], PER_MINUTE)
        assert PER_MINUTE <= again.count(200) <= PER_MINUTE + 15


def test_requests_at_once_of_a_killed_router_are_forgotten(
    tmp_path: Path, cascadia: Cascadia, redis: Process
) -> None:
    keys = tmp_path / "keys.json"
    header = key_of(cascadia, keys, "--name", "a", "--concurrent", "1")
    told = {"keys": {"file": str(keys), "redis_url": f"redis://127.0.0.1:{redis.port}/0"}}
    with fleet(tmp_path, settings=told) as up:
        other = up.router(free_port(), 1, [])
        up.routers.append(other)
        other.start()
        for engine in up.engines["large"]:
            engine.told("hangs")
        body = json.dumps({"model": "large", "messages": [{"role": "user", "content": "x"}]})
        held = subprocess.Popen(
            ["curl", "-s", "-d", body, "-H", f"authorization: {header['authorization']}",
             f"http://127.0.0.1:{other.port}/v1/chat/completions"],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            # Not asked meanwhile: the one would take the other's place.
            until(lambda: running(other.port) == 1)
            assert statuses([up.port], header, 1) == [429]
            other.kill()
            since_s = time.monotonic()
            until(lambda: statuses([up.port], header, 1) == [200])
            assert 5.0 < time.monotonic() - since_s < 20.0
        finally:
            held.kill()
            held.wait(timeout=60)


def test_a_hundred_new_plans_under_load_fail_no_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By SIGHUP, each with another threshold, and every third with other replicas."""
    with fleet(tmp_path) as up:
        small, large = up.engines["small"], up.engines["large"]

        def write(i: int) -> None:
            up.engines = up.engines | {"small": small[i % 3 == 1 :], "large": large[: 1 + (i % 3 != 2)]}
            document = up.document()
            document["stages"][0]["threshold"] = 50 + i % 2
            part = tmp_path / "part"
            part.write_text(json.dumps(document | {"watch_s": 0}))
            part.replace(tmp_path / "router.yaml")

        async def main() -> Seen:
            async with Load(up.port, workers=12, pause_s=0.005) as load:
                for i in range(RELOADS):
                    before = plan(up)
                    write(i)
                    up.routers[0].send(signal.SIGHUP)
                    await asyncio.to_thread(until, lambda before=before: plan(up) != before)
            return load.seen

        seen = asyncio.run(main())
        up.engines = up.engines | {"small": small, "large": large}
        with capsys.disabled():
            print(f"\n{seen.told(f'{RELOADS} reloads')}", end="")
        assert set(seen.counts) == {"answered"}
        assert len(seen.outcomes) > 5 * RELOADS

        def outcomes() -> list[str]:
            lines = up.routers[0].log.read_text().splitlines()
            # The watch may look at a file too before a busy machine has read it: it finds it unchanged.
            told = [json.loads(line) for line in lines if '"event":"reload"' in line]
            return [each["outcome"] for each in told if each["why"] == "signal"]

        until(lambda: len(outcomes()) == RELOADS)  # the log is written behind the work
        assert set(outcomes()) == {"swapped"}


def plan(up: Fleet) -> str:
    return str(up.state()["plan"])


def test_a_plan_of_cascadia_is_swapped_by_writing_the_file(tmp_path: Path, cascadia: Cascadia) -> None:
    """The keys of a plan's router stand beside it, and are taken up as they change."""
    keys = tmp_path / "keys.json"
    asks = key_of(cascadia, keys, "--name", "asks")
    with fleet(tmp_path, settings={"keys": {"file": "keys.json"}, "watch_s": 0.2}) as up:
        assert statuses([up.port], asks, 1) == [200]
        cascadia("keys", "revoke", keys, "asks")
        until(lambda: statuses([up.port], asks, 1) == [401])
        again = key_of(cascadia, keys, "--name", "asks")
        until(lambda: statuses([up.port], again, 1) == [200])
        before = plan(up)
        path = tmp_path / "router.yaml"
        path.write_text(path.read_text().replace('"threshold": 50', '"threshold": 60'))
        until(lambda: plan(up) != before)
        path.write_text("{")
        until(lambda: up.state().get("reload", {}).get("outcome") == "refused")
        assert statuses([up.port], again, 1) == [200]

"""^C of `cascadia up` in the foreground, whatever it is doing: it ends, and so does all that it has started."""

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from cascadia.clients.processes.guard import descendants
from tests.e2e.test_up_commands import PROGRAM, Place, place
from tests.unit.controller.machine import ENGINE
from tests.unit.controller.test_local_process import alive

__all__ = ["place"]
NEVER = {"command": ["{python}", "-c", "import signal; signal.pause()"]}
LIMIT_S = 60.0


@contextmanager
def up(place: Place) -> Iterator["subprocess.Popen[bytes]"]:
    options = ["--engines", "local.yaml", "--port", str(place.port)]
    with (place.folder / "said").open("wb") as said:
        process = subprocess.Popen([PROGRAM, "up", "plan.json", *options], cwd=place.folder, stdout=said)
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=60)


def until(true: Callable[[], bool]) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < until_s
        time.sleep(0.02)


def serves(place: Place) -> bool:
    return b"serving small, large" in (place.folder / "said").read_bytes()


def interrupted(process: "subprocess.Popen[bytes]", *signals: signal.Signals) -> list[int]:
    """What is left of it once it has ended."""
    tree = descendants(process.pid)
    assert tree
    for number in signals:
        process.send_signal(number)
    assert process.wait(LIMIT_S) == 0
    return [pid for pid in tree if alive(pid)]


def test_while_engines_load(place: Place) -> None:
    (place.folder / "local.yaml").write_text(json.dumps({"stages": {"small": NEVER, "large": NEVER}}))
    with up(place) as process:
        until(lambda: len(descendants(process.pid)) == 4)
        assert interrupted(process, signal.SIGINT) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_while_it_serves(number: signal.Signals, place: Place) -> None:
    with up(place) as process:
        until(lambda: serves(place))
        assert interrupted(process, number) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_once_it_waits_for_what_is_in_hand_and_twice_it_does_not(
    number: signal.Signals, place: Place
) -> None:
    """SIGHUP too: whoever closes a terminal cuts nobody's answer."""
    slow = {"command": ["{python}", str(ENGINE), "{port}"], "drain_s": 600}
    (place.folder / "local.yaml").write_text(json.dumps({"stages": {"small": slow, "large": slow}}))
    gate = place.folder / "gate"

    async def main(process: "subprocess.Popen[bytes]") -> None:
        async with httpx.AsyncClient(timeout=LIMIT_S, trust_env=False) as client:
            body = {"model": "small", "messages": [{"role": "user", "content": "hello"}], "gate": str(gate)}
            url = f"http://127.0.0.1:{place.port}/v1/chat/completions"
            asked = asyncio.create_task(client.post(url, json=body))
            await asyncio.to_thread(until, Path(f"{gate}.arrived").exists)
            tree = descendants(process.pid)
            process.send_signal(number)
            with pytest.raises(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, 2.0)
            process.send_signal(number)
            assert await asyncio.to_thread(process.wait, LIMIT_S) == 0
            assert not [pid for pid in tree if alive(pid)]
            with pytest.raises(httpx.HTTPError):
                await asked

    with up(place) as process:
        until(lambda: serves(place))
        asyncio.run(main(process))

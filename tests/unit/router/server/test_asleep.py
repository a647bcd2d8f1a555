"""A process whose event loop waits for something within one turn is found, ended with its stack in the log, and
replaced; one that computes, is idle, was stopped, or waits for a core is not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cascadia.router.server.asleep import LOOK_S, Asleep, Heartbeats

LIMIT_S = 120.0


class Thread:
    """A clock, and what the kernel tells of a thread."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.known_s: float | None = 5.0
        self.asleep = Asleep(1, clock=lambda: self.now_s, scheduled=lambda _: self.known_s)

    def looked(
        self, *, passed_s: float = LOOK_S, scheduled_s: float | None = 0.0, heartbeats: int = 1
    ) -> float:
        self.now_s += passed_s
        if scheduled_s is None or self.known_s is None:
            self.known_s = None if scheduled_s is None else 5.0
        else:
            self.known_s += scheduled_s
        return self.asleep.look(heartbeats)


def test_only_time_asleep_within_one_turn_counts() -> None:
    thread = Thread()
    thread.looked()
    assert [thread.looked() for _ in range(3)] == pytest.approx([0.5, 1.0, 1.5])
    # It computed, or was ready for a core and got none.
    assert thread.looked(scheduled_s=LOOK_S) == pytest.approx(1.5)
    assert thread.looked(scheduled_s=0.4) == pytest.approx(1.6)
    assert thread.looked(heartbeats=2) == 0.0


def test_time_that_nobody_looked_or_that_it_was_stopped_does_not_count() -> None:
    thread = Thread()
    thread.looked()
    assert thread.looked(passed_s=3600.0) == pytest.approx(2 * LOOK_S)
    assert thread.looked(scheduled_s=None) == pytest.approx(2 * LOOK_S)
    assert thread.looked() == pytest.approx(2 * LOOK_S)
    assert thread.looked() == pytest.approx(3 * LOOK_S)


def test_a_loop_that_has_not_begun_or_has_ended_is_not_looked_at() -> None:
    thread, heartbeats = Thread(), Heartbeats(2)
    heartbeats.add(1)
    assert (heartbeats.of(0), heartbeats.of(1)) == (0, 1)
    heartbeats.end(1)
    assert heartbeats.of(1) == 0
    assert [thread.looked(heartbeats=0) for _ in range(3)] == [0.0] * 3


ALONE = """
import asyncio, os, time
from functools import partial
from cascadia.router.server.asleep import Heartbeats, watch_own
from cascadia.router.server.pulse import end_where_stalled

def waits_here():
    WORK

async def main():
    heartbeats = Heartbeats()
    watch_own(heartbeats, 1.2)
    end_where_stalled(asyncio.get_running_loop(), 60.0, partial(heartbeats.add, 0))
    await asyncio.sleep(0.7)
    print("begins", flush=True)
    waits_here()
    await asyncio.sleep(0.1)

asyncio.run(main())
"""
BLOCKS = "os.read(os.pipe()[0], 1)"


def test_one_that_waits_within_a_turn_is_ended_with_its_stack_in_the_log() -> None:
    program = ALONE.replace("WORK", BLOCKS)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S)
    assert ended.returncode == -signal.SIGPROF
    assert "has waited" in ended.stderr
    assert "waits_here" in ended.stderr


@pytest.mark.long
def test_one_that_computes_or_is_stopped_for_longer_goes_on() -> None:
    program = ALONE.replace("WORK", "until = time.monotonic() + 4\n    while time.monotonic() < until: pass")
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(2.0)
        process.send_signal(signal.SIGCONT)
        assert process.wait(LIMIT_S) == 0


SEVERAL = """
import os, socket, sys, time
from cascadia.router.server.asleep import Heartbeats
from cascadia.router.server.pulse import end_where_stalled
from cascadia.router.server.workers import Workers, hear
import asyncio
from functools import partial
from pathlib import Path

first = Path(sys.argv[1])

def waits_here():
    os.read(os.pipe()[0], 1)

def serve(number):
    hear()

    async def main():
        end_where_stalled(asyncio.get_running_loop(), 60.0, partial(parent.heartbeats.add, number))
        await asyncio.sleep(0.7)
        if not first.exists():
            first.touch()
            waits_here()
        print("serves", flush=True)
        await asyncio.sleep(60)
    asyncio.run(main())

with socket.create_server(("127.0.0.1", 0)) as listening:
    parent = Workers([listening], serve, blocked_s=1.2)
    sys.exit(parent.run(lambda: None))
"""


@pytest.mark.long
def test_a_worker_that_waits_within_a_turn_is_replaced_by_its_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SEVERAL, str(tmp_path / "first")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert process.stdout.readline() == "serves\n"
        finally:
            os.kill(process.pid, signal.SIGTERM)
        _, said = process.communicate(timeout=LIMIT_S)
    assert "has waited" in said
    assert "waits_here" in said

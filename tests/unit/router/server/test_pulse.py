"""A process whose event loop computes without end is ended, and says where it hung; one that waits or sleeps is not."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, re, time
from cascadia.router.server.pulse import end_where_stalled

def hangs_here():
    WORK

async def main():
    end_where_stalled(asyncio.get_running_loop(), STALL)
    await asyncio.sleep(0.1)
    hangs_here()
    await asyncio.sleep(0.1)

asyncio.run(main())
"""


def outcome(work: str, stall_s: float) -> "subprocess.CompletedProcess[str]":
    program = PROGRAM.replace("WORK", work).replace("STALL", str(stall_s))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("work", ["while True: pass", "re.search('^(a+)+$', 'a' * 60 + '!')"])
def test_a_loop_that_computes_without_end_is_ended_with_its_stack_in_the_log(work: str) -> None:
    ended = outcome(work, 0.3)
    assert ended.returncode == -signal.SIGPROF
    assert "hangs_here" in ended.stderr


@pytest.mark.parametrize(("work", "stall_s"), [("time.sleep(0.6)", 0.3), ("sum(range(3_000_000))", 0.0)])
def test_one_that_waits_or_is_not_watched_goes_on(work: str, stall_s: float) -> None:
    ended = outcome(work, stall_s)
    assert (ended.returncode, ended.stderr) == (0, "")

"""A log that takes nothing holds up a thread, and nothing else."""

import threading
from select import PIPE_BUF

import pytest

from cascadia.router.telemetry.log_writer import MOST_BYTES, LogWriter


def test_lines_are_written_in_order_and_all_of_them_at_the_end() -> None:
    found: list[bytes] = []
    writer = LogWriter(found.append)
    for k in range(100):
        writer(b"%d\n" % k)
    writer.close(wait_s=10.0)
    assert found == [b"%d\n" % k for k in range(100)]


def test_who_writes_does_not_wait_for_a_pipe_that_takes_nothing_and_what_goes_beyond_is_refused() -> None:
    go, found = threading.Event(), []

    def stuck(lines: bytes) -> None:
        go.wait(timeout=60)
        found.append(lines)

    writer = LogWriter(stuck)
    line = b"x" * (MOST_BYTES // 4 - 1) + b"\n"
    for _ in range(4):
        writer(line)
    with pytest.raises(OSError, match="not being read"):
        writer(b"one more\n")
    go.set()
    writer.close(wait_s=10.0)
    assert len(found) == 4


def test_lines_that_cannot_be_written_are_counted_and_the_next_are_tried() -> None:
    found: list[bytes] = []
    lost: list[int] = []

    def sometimes(lines: bytes) -> None:
        if b"bad" in lines:
            raise OSError(28, "No space left on device")
        found.append(lines)

    writer = LogWriter(sometimes)
    writer.failed = lost.append
    for lines in (b"good\n", b"bad\nbad\n", b"good\n"):
        writer(lines)
    writer.close(wait_s=10.0)
    assert (len(found), lost) == (2, [2])


def test_what_goes_to_a_pipe_that_processes_share_goes_in_whole_lines_that_it_takes_in_one_piece() -> None:
    """Four processes with a full pipe wrote into one another's lines: 21 of 960 could not be read."""
    found: list[bytes] = []
    writer = LogWriter(found.append)
    lines = [b"%d %b\n" % (number, b"x" * (number * 37 % 900)) for number in range(200)]
    lines[100] = b"y" * 3 * PIPE_BUF + b"\n"
    writer(b"".join(lines))
    writer.close()
    assert b"".join(found) == b"".join(lines)
    assert all(part.endswith(b"\n") for part in found)
    assert [part for part in found if len(part) > PIPE_BUF] == [lines[100]]
    assert len(found) < 50

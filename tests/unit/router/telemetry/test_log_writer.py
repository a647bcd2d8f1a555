"""A log that takes nothing holds up a thread, and nothing else."""

import threading

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

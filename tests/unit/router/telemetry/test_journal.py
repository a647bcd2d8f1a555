"""Lines of the log go out together, soon or when many have come, and none goes missing uncounted."""

import asyncio
import json

from cascadia.router.telemetry.request_log import FLUSH_BYTES, Journal
from cascadia.testing.routers import run, until


def test_lines_that_come_together_are_written_together_in_their_order() -> None:
    async def main() -> None:
        written: list[bytes] = []
        journal = Journal(written.append, lambda _: None, clock=lambda: 1.23456)
        for number in range(3):
            journal.line({"number": number})
        assert written == []
        await until(lambda: bool(written))
        (lines,) = written
        assert [json.loads(line) for line in lines.splitlines()] == [
            {"number": number, "ts": 1.234} for number in range(3)
        ]

    run(main)


def test_many_lines_are_not_waited_with_and_each_is_written_once() -> None:
    async def main() -> None:
        written: list[bytes] = []
        journal = Journal(written.append, lambda _: None)
        for number in range(FLUSH_BYTES // 20):
            journal.line({"number": number})
        assert written
        journal.flush()
        numbers = [json.loads(line)["number"] for line in b"".join(written).splitlines()]
        assert numbers == list(range(FLUSH_BYTES // 20))

    run(main)


def test_lines_that_cannot_be_written_are_counted_once() -> None:
    async def main() -> None:
        lost: list[int] = []

        def full(_: bytes) -> None:
            raise OSError(28, "No space left on device")

        journal = Journal(full, lost.append)
        for _ in range(5):
            journal.line({"text": "a\nb"})
        journal.flush()
        journal.flush()
        assert lost == [5]

    run(main)


def test_without_a_place_to_write_nothing_is_kept() -> None:
    async def main() -> None:
        entry = {"number": 1}
        Journal(None, lambda _: None).line(entry)
        await asyncio.sleep(0)
        assert entry == {"number": 1}

    run(main)

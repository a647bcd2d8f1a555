"""The queue for one thread: who is given an answer early does not wait for the batch."""

import asyncio
import threading
from collections.abc import Callable

from cascadia.clients.processes.one_thread import OneThread


def test_an_entry_that_is_given_early_is_answered_before_the_batch_ends() -> None:
    answered = threading.Event()

    def compute(entries: list[str], give: Callable[[int, str], object]) -> list[str]:
        give(0, "early")
        # Ends only when the first caller has its answer; a batch that kept it would wait in vain.
        assert answered.wait(60)
        return ["late", *entries[1:]]

    async def main() -> tuple[str, str]:
        queue = OneThread("test", compute, lambda _: None, lambda *_: None, at_once=4, most_waiting=8)
        queue.start()
        first = asyncio.create_task(queue.found(["a"], [1]))
        second = asyncio.create_task(queue.found(["b"], [1]))
        (early,) = await first
        assert not second.done()
        answered.set()
        (late,) = await second
        await queue.stop()
        return early, late

    assert asyncio.run(main()) == ("early", "b")

"""Who is served next, where requests wait."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import uvloop
from hypothesis import given
from hypothesis import strategies as st

from cascadia.dispatch.candidate import Asked
from cascadia.router.replicas.pace import Pace
from cascadia.router.replicas.wait_queue import MOST_SLACK_S, MOST_STEPS, STEP_S, Outcome, Waiter, WaitQueue


def run(main: Coroutine[Any, Any, None]) -> None:
    uvloop.run(main)


async def _served(priorities: list[int]) -> list[int]:
    """The order in which those who came one after another at one moment are woken."""
    wait_queue, order = WaitQueue(), []
    now_s = asyncio.get_running_loop().time()

    async def wait(k: int, priority: int) -> None:
        assert await wait_queue.wait(now_s + 60.0, wait_queue.rank(priority, now_s)) == "woken"
        order.append(k)

    waiting = [asyncio.create_task(wait(k, p)) for k, p in enumerate(priorities)]
    await asyncio.sleep(0)
    for _ in priorities:
        wait_queue.wake()
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    return order


@given(st.lists(st.integers(-20, 20), max_size=12))
def test_lower_priority_is_first_and_within_one_who_came_first(priorities: list[int]) -> None:
    async def main() -> None:
        reach = [max(-MOST_STEPS, min(MOST_STEPS, p)) for p in priorities]
        assert await _served(priorities) == sorted(range(len(reach)), key=lambda k: reach[k])

    run(main())


def test_nobody_is_overtaken_by_those_who_come_too_long_after() -> None:
    wait_queue = WaitQueue()
    worst = wait_queue.rank(10**9, 0.0)
    assert wait_queue.rank(-(10**9), 2 * MOST_STEPS * STEP_S - 0.1) < worst
    assert wait_queue.rank(-(10**9), 2 * MOST_STEPS * STEP_S) > worst


class Touched(list[Any]):
    """Counts what is looked at."""

    looked = 0

    def __getitem__(self, at: Any) -> Any:
        self.looked += 1
        return super().__getitem__(at)

    def __iter__(self) -> Iterator[Any]:
        self.looked += len(self)
        return super().__iter__()


def test_what_a_place_costs_does_not_grow_with_those_who_wait() -> None:
    async def main() -> None:
        wait_queue, loop = WaitQueue(), asyncio.get_running_loop()
        wait_queue.tickets = Touched()
        waiting = [
            asyncio.create_task(
                wait_queue.wait(
                    loop.time() + 60.0, wait_queue.rank(0, float(n)), Waiter(Asked(1, 1, None), float(n))
                )
            )
            for n in range(500)
        ]
        await asyncio.sleep(0)
        tickets, given = wait_queue.tickets, 0
        tickets.looked = 0
        while wait_queue.tickets:
            first = wait_queue.first(8)
            wait_queue.give([(first[-1], "a"), (first[0], "b")][: len(first)])
            given += 1
        assert await asyncio.gather(*waiting) == ["woken"] * 500
        assert wait_queue.tickets is tickets
        assert tickets.looked < 40 * given

    run(main())


def test_who_was_woken_in_vain_keeps_its_place() -> None:
    async def main() -> None:
        wait_queue, loop = WaitQueue(), asyncio.get_running_loop()
        first, second = wait_queue.rank(0, loop.time()), wait_queue.rank(0, loop.time())
        ends: list[tuple[str, Outcome]] = []

        async def wait(name: str, rank: Any) -> None:
            ends.append((name, await wait_queue.wait(loop.time() + 60.0, rank)))

        tasks = [asyncio.create_task(wait("second", second)), asyncio.create_task(wait("first", first))]
        await asyncio.sleep(0)
        wait_queue.wake()
        wait_queue.wake()
        await asyncio.gather(*tasks)
        assert ends == [("first", "woken"), ("second", "woken")]

    run(main())


def test_who_leaves_in_the_moment_it_is_woken_hands_the_place_on() -> None:
    async def main() -> None:
        wait_queue, loop = WaitQueue(), asyncio.get_running_loop()
        waits = [
            asyncio.create_task(wait_queue.wait(loop.time() + 60.0, wait_queue.rank(0, loop.time())))
            for _ in range(2)
        ]
        await asyncio.sleep(0)
        wait_queue.wake()
        waits[0].cancel()
        assert await waits[1] == "woken"
        assert len(wait_queue) == 0

    run(main())


def test_the_urgent_take_the_place_of_the_last_and_nobody_elses() -> None:
    async def main() -> None:
        wait_queue, loop = WaitQueue(), asyncio.get_running_loop()
        now_s = loop.time()
        waits = [
            asyncio.create_task(wait_queue.wait(now_s + 60.0, wait_queue.rank(p, now_s))) for p in (0, 3)
        ]
        await asyncio.sleep(0)
        assert not wait_queue.displace(wait_queue.rank(5, now_s))
        assert wait_queue.displace(wait_queue.rank(-1, now_s))
        assert await waits[1] == "displaced"
        assert not wait_queue.displace(wait_queue.rank(0, now_s))
        assert wait_queue.displace(wait_queue.rank(-1, now_s))
        assert await waits[0] == "displaced"

    run(main())


def test_time_runs_out_for_who_is_not_woken() -> None:
    async def main() -> None:
        wait_queue, loop = WaitQueue(), asyncio.get_running_loop()
        assert await wait_queue.wait(loop.time() + 0.01, wait_queue.rank(0, loop.time())) == "late"
        assert len(wait_queue) == 0

    run(main())


def test_the_pace_is_learnt_while_others_wait_only() -> None:
    pace = Pace()
    pace.last_s = None
    pace.last_s = None
    assert pace.gap_s == 0.0
    for k in range(5):
        pace.ended(10.0 + 0.5 * k)
    assert pace.gap_s == 0.5
    pace.last_s = None
    pace.ended(90.0)
    assert pace.gap_s == 0.5


def test_within_a_priority_who_must_begin_soonest_is_next_and_nobody_waits_for_ever() -> None:
    wait_queue = WaitQueue()
    patient, hurried, later = (
        wait_queue.rank(0, now, slack) for now, slack in ((0.0, 600.0), (1.0, 3.0), (2.0, 1.0))
    )
    assert later < hurried < patient
    assert wait_queue.rank(0, 1.0) > patient
    # Who has waited for as long as slack counts is before whoever comes now, however late that one is.
    assert wait_queue.rank(0, MOST_SLACK_S + 0.1, -5.0) > patient
    assert wait_queue.rank(1, 1.0, 3.0) > hurried


def test_who_waited_before_replicas_were_given_looks_for_itself() -> None:
    """As where a reload changes a stage's balancing while requests wait."""

    async def main() -> None:
        wait_queue = WaitQueue()
        now_s = asyncio.get_running_loop().time()
        waiting = asyncio.create_task(wait_queue.wait(now_s + 60.0, wait_queue.rank(0, now_s)))
        await asyncio.sleep(0)
        wait_queue.matches = lambda: True
        wait_queue.wake()
        assert await asyncio.wait_for(waiting, 60) == "woken"

    run(main())

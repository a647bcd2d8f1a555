"""Wait queue for a replica: lower priority first, as vLLM has it, and within one who has least slack: who must begin
soonest to be in time. Of those with time enough, and of those without a deadline, who waits longest.

A step of priority is worth `STEP_S` seconds of waiting, and `MOST_STEPS` of them are as far as it goes; no slack counts
for more than `MOST_SLACK_S`. So whoever waits is overtaken only by those who come within a bounded time after: nobody
starves, whatever the others' priority and deadlines.
"""

import asyncio
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from cascadia.dispatch.candidate import Asked

STEP_S = 2.0
MOST_STEPS = 10
MOST_SLACK_S = 20.0

Outcome = Literal["woken", "late", "displaced"]


class Rank(NamedTuple):
    """Lower is served first. `number` tells apart those of one moment."""

    due_s: float
    number: int


class Waiter(Struct, eq=False):
    """A request that waits, as `cascadia.dispatch.candidate.Waiting` has it; `given` is the replica that it got."""

    asked: Asked
    since_s: float
    overtaken: int = 0
    held_s: float | None = None
    given: Any = None


class _Ticket:
    __slots__ = ("displaced", "rank", "waiter", "woken")

    def __init__(self, rank: Rank, woken: "asyncio.Future[None]", waiter: Waiter | None) -> None:
        self.rank = rank
        self.woken = woken
        self.waiter = waiter
        self.displaced = False


class WaitQueue:
    """Whoever is woken looks for a replica, and wakes the next when it found one or went away: no wake is lost.

    `matches`, where set, gives replicas to those who wait by itself, and tells whether it looked; what was given to one
    who went away meanwhile is `returned`.
    """

    __slots__ = ("_number", "matches", "returned", "tickets")

    def __init__(self) -> None:
        self.tickets: list[_Ticket] = []
        """The next is at the end."""
        self.matches: Callable[[], bool] | None = None
        self.returned: Callable[[Any], None] = _nothing
        self._number = 0

    def __len__(self) -> int:
        return len(self.tickets)

    def rank(self, priority: int, now_s: float, slack_s: float = MOST_SLACK_S) -> Rank:
        """The place of one who comes now and may begin `slack_s` later; it is kept when waking was in vain."""
        self._number += 1
        steps = max(-MOST_STEPS, min(MOST_STEPS, priority))
        return Rank(now_s + STEP_S * steps + max(0.0, min(MOST_SLACK_S, slack_s)), self._number)

    def ahead(self, rank: Rank) -> int:
        """Number that are served before `rank`."""
        return len(self.tickets) - bisect_left(self.tickets, _from_behind(rank), key=_place)

    async def wait(self, until_s: float, rank: Rank, waiter: Waiter | None = None) -> Outcome:
        """`late` at `until_s` of the event loop's time."""
        loop = asyncio.get_running_loop()
        ticket = _Ticket(rank, loop.create_future(), waiter)
        insort(self.tickets, ticket, key=_place)
        if self.matches is not None:
            self.matches()
        timer = loop.call_at(until_s, _end, ticket.woken)
        try:
            await ticket.woken
        except BaseException:
            if not self._left(ticket) and not ticket.displaced:
                if waiter is not None and waiter.given is not None:
                    self.returned(waiter.given)
                self.wake()
            raise
        finally:
            timer.cancel()
        if ticket.displaced:
            return "displaced"
        return "late" if self._left(ticket) else "woken"

    def wake(self) -> None:
        """The first who waits looks again, unless replicas are given.

        Who began to wait before they were looks for itself: nobody gives it any.
        """
        ours = not self.tickets or self.tickets[-1].waiter is not None
        if ours and self.matches is not None and self.matches():
            return
        while self.tickets:
            ticket = self.tickets.pop()
            if not ticket.woken.done():
                ticket.woken.set_result(None)
                return

    def first(self, count: int) -> Sequence[Waiter]:
        """The first so many of those who are given replicas, in order."""
        waiting = (ticket for ticket in reversed(self.tickets) if not ticket.woken.done())
        return [t.waiter for t, _ in zip(waiting, range(count), strict=False) if t.waiter is not None]

    def give(self, given: Sequence[tuple[Waiter, Any]]) -> None:
        """Each of these, who are among the `first`, waits no longer."""
        by_waiter = {id(waiter): what for waiter, what in given}
        at = len(self.tickets)
        gone: list[_Ticket] = []
        while at and len(gone) < len(by_waiter):
            at -= 1
            ticket = self.tickets[at]
            if ticket.waiter is not None and id(ticket.waiter) in by_waiter:
                ticket.waiter.given = by_waiter[id(ticket.waiter)]
                gone.append(ticket)
                del self.tickets[at]
        for ticket in gone:
            _end(ticket.woken)

    def displace(self, rank: Rank) -> bool:
        """Sends the last away where `rank` comes before it; False where nobody waits behind `rank`."""
        if not self.tickets or self.tickets[0].rank < rank:
            return False
        ticket = self.tickets.pop(0)
        ticket.displaced = True
        _end(ticket.woken)
        return True

    def _left(self, ticket: _Ticket) -> bool:
        """Takes `ticket` out of the queue; False where it is not in there any more."""
        at = bisect_left(self.tickets, _place(ticket), key=_place)
        if at == len(self.tickets) or self.tickets[at] is not ticket:
            return False
        del self.tickets[at]
        return True


def _place(ticket: _Ticket) -> tuple[float, int]:
    return _from_behind(ticket.rank)


def _from_behind(rank: Rank) -> tuple[float, int]:
    return -rank.due_s, -rank.number


def _end(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)


def _nothing(_given: Any) -> None:
    """Does nothing."""

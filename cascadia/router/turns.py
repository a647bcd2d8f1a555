"""Those who wait for a replica, first come, first served."""

import asyncio
from collections import deque


class Turns:
    """Whoever is woken looks for a replica, and wakes the next when it found one or went away: no wake is lost."""

    __slots__ = ("_tickets",)

    def __init__(self) -> None:
        self._tickets: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._tickets)

    async def wait(self, until_s: float, *, in_front: bool) -> bool:
        """True when woken, False at `until_s` of the event loop's time. `in_front`: it was woken in vain before."""
        loop = asyncio.get_running_loop()
        ticket: asyncio.Future[None] = loop.create_future()
        if in_front:
            self._tickets.appendleft(ticket)
        else:
            self._tickets.append(ticket)
        timer = loop.call_at(until_s, _expire, ticket)
        try:
            await ticket
        except BaseException:
            if ticket in self._tickets:
                self._tickets.remove(ticket)
            else:
                self.wake()
            raise
        finally:
            timer.cancel()
        if ticket in self._tickets:
            self._tickets.remove(ticket)
            return False
        return True

    def wake(self) -> None:
        """The first who waits looks again."""
        while self._tickets:
            ticket = self._tickets.popleft()
            if not ticket.done():
                ticket.set_result(None)
                return


def _expire(ticket: "asyncio.Future[None]") -> None:
    if not ticket.done():
        ticket.set_result(None)

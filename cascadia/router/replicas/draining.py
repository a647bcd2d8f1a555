"""Replicas that no plan has any more: they finish what they have, and are then closed."""

import asyncio
from collections.abc import Iterator

from cascadia.router.replicas.replica import Replica

LOOK_S = 0.1


class Departing:
    """Connections without work are closed at once, the others when their work is done."""

    def __init__(self) -> None:
        self._replicas: list[Replica] = []
        self._timer: asyncio.TimerHandle | None = None

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._replicas)

    def add(self, replica: Replica) -> None:
        self._replicas.append(replica)
        self._look()

    async def stop(self) -> None:
        """Whatever still runs is cut."""
        if self._timer is not None:
            self._timer.cancel()
        for replica in self._replicas:
            replica.pool.close()
        self._replicas.clear()

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for replica in self._replicas:
            if not replica.running:
                replica.pool.close()
        self._replicas = [replica for replica in self._replicas if replica.running]
        if self._replicas:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

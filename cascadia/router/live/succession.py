"""The plan in force and those before it: requests end under the plan that they began with, whatever comes after.

Each replica's health is watched as long as some plan has it; who belongs to no plan any more finishes its work.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from cascadia.router.live.active_plan import ActivePlan
from cascadia.router.live.swap import succeed
from cascadia.router.replicas.draining import Departing
from cascadia.router.replicas.health import watch
from cascadia.router.replicas.replica import Replica


class Succession:
    """`now` is in force. `departing`: replicas of no plan that finish their work. `line` writes into the log."""

    def __init__(self, first: ActivePlan, line: Callable[[dict[str, Any]], object]) -> None:
        self.now = first
        self._line = line
        self.departing = Departing()
        self._watchers: dict[Replica, asyncio.Task[None]] = {}
        self._retired: list[tuple[ActivePlan, list[Replica]]] = []
        """Older active plans with requests under way, oldest first, and the replicas that leave with each."""

    @property
    def older(self) -> int:
        """Requests under way that began under plans before this one."""
        return sum(plan.running for plan, _ in self._retired)

    def swap(self, new: ActivePlan, then: Callable[[], None]) -> None:
        """Puts `new` in force: requests begin under it from now on; those under way end under what they began
        with.

        Nothing here can fail, and nothing waits. `then` is called once `new` is in force.
        """
        old = self.now
        drained = succeed(new, old)
        self.now = new
        then()
        for replica in drained:
            self._leave(replica)
        stay = {replica for _, replica in new.replicas}
        gone = [replica for _, replica in old.replicas if replica not in stay]
        self._retired.append((old, gone))
        # Not at once: a request that is about to begin with the old plan does so before.
        soon = asyncio.get_running_loop().call_soon
        old.service.on_idle = lambda: soon(self._retire)
        soon(self._retire)
        if old.settings.health != new.settings.health:
            for replica in stay:
                self._unwatch(replica)
        self.watch()

    def watch(self) -> None:
        """Looks after the health of all replicas in force."""
        for stage, replica in self.now.replicas:
            if replica.health_request and replica not in self._watchers:
                task = asyncio.create_task(watch(stage, replica, self.now.settings.health, self._line))
                self._watchers[replica] = task

    async def stop(self) -> None:
        """Closes all connections, of older plans too."""
        watchers = list(self._watchers.values())
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        self._watchers.clear()
        await self.departing.stop()
        for replica in [*(r for _, r in self.now.replicas), *(r for _, gone in self._retired for r in gone)]:
            replica.pool.close()

    def _retire(self) -> None:
        """Closes the stages that only older active plans had, when no request of those or older ones is left.

        Oldest first, as a stage's replicas are shared by all active plans that have it.
        """
        while self._retired and not self._retired[0][0].running:
            _, gone = self._retired.pop(0)
            for replica in gone:
                replica.drain()
                self._leave(replica)

    def _leave(self, replica: Replica) -> None:
        self._unwatch(replica)
        self.departing.add(replica)

    def _unwatch(self, replica: Replica) -> None:
        watcher = self._watchers.pop(replica, None)
        if watcher is not None:
            watcher.cancel()

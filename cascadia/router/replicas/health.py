"""Health checks of replicas: each is asked again and again, and its waiting requests moved on when it is not."""

import asyncio
from collections.abc import Callable
from typing import Any

from cascadia.router.replicas.replica import Replica
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import Health
from cascadia.router.upstream.errors import UpstreamError


async def watch(
    stage: Stage, replica: Replica, health: Health, line: Callable[[dict[str, Any]], object]
) -> None:
    """Watches a replica's health for ever. `line` writes into the log when it changes."""
    loop = asyncio.get_running_loop()
    since_s, failures = loop.time(), 0
    told = _Told(stage, replica, line)
    while True:
        if replica.state == "draining":
            since_s, failures, replica.ill = loop.time(), 0, ""
        elif (ill := await replica.why_ill(health.timeout_s)) is None:
            pass  # nothing was learnt
        elif not ill:
            failures, replica.ill = 0, ""
            if replica.state not in ("ready", "draining"):
                replica.state = "ready"
                replica.breaker.succeeded()
                stage.wait_queue.wake()
            told.well()
        else:
            failures += 1
            replica.ill = ill
            starting = replica.state == "starting" and loop.time() - since_s < health.startup_s
            if failures >= health.failures and not starting and replica.state not in ("down", "draining"):
                replica.state = "down"
                # A hung engine keeps its connections: what waits there for a first byte goes elsewhere.
                replica.pool.fail_unanswered(UpstreamError("unhealthy"))
                # Who waited for it may have no hope left, and is told at once.
                stage.wait_queue.wake()
            if failures >= health.failures:
                told.ill(ill)
        await asyncio.sleep(health.interval_s if not failures else health.again_s)


class _Told:
    """Lines of the log on one replica: one when it is ill, one for each other reason, one when it is well."""

    def __init__(self, stage: Stage, replica: Replica, line: Callable[[dict[str, Any]], object]) -> None:
        self._stage = stage
        self._replica = replica
        self._line = line
        self._said: set[tuple[str, str]] = set()

    def ill(self, why: str) -> None:
        # Once each: a check that fails now so, now so, would fill the log.
        if (self._replica.state, why) not in self._said:
            self._said.add((self._replica.state, why))
            self._write(why=why)

    def well(self) -> None:
        if self._said and self._replica.state == "ready":
            self._said.clear()
            self._write()

    def _write(self, **more: str) -> None:
        replica = self._replica
        entry = {
            "event": "health",
            "stage": self._stage.name,
            "replica": replica.name,
            "state": replica.state,
        }
        self._line(entry | more)

"""Health checks of replicas: each is asked again and again, and its waiting requests moved on when it is not."""

import asyncio

from cascadia.router.replicas.replica import Replica
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import Health
from cascadia.router.upstream.errors import UpstreamError


async def watch(stage: Stage, replica: Replica, health: Health) -> None:
    """Watches a replica's health for ever."""
    loop = asyncio.get_running_loop()
    since_s, failures = loop.time(), 0
    while True:
        if replica.state == "draining":
            since_s, failures = loop.time(), 0
        elif (healthy := await replica.is_healthy(health.timeout_s)) is None:
            pass  # nothing was learnt
        elif healthy:
            failures = 0
            if replica.state not in ("ready", "draining"):
                replica.state = "ready"
                replica.breaker.succeeded()
                stage.wait_queue.wake()
        else:
            failures += 1
            starting = replica.state == "starting" and loop.time() - since_s < health.startup_s
            if failures >= health.failures and not starting and replica.state not in ("down", "draining"):
                replica.state = "down"
                # A hung engine keeps its connections: what waits there for a first byte goes elsewhere.
                replica.pool.fail_unanswered(UpstreamError("unhealthy"))
                # Who waited for it may have no hope left, and is told at once.
                stage.wait_queue.wake()
        await asyncio.sleep(health.interval_s if not failures else health.again_s)

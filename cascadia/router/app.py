"""The router's parts, put together.

POSTs to the OpenAI API go to `service`, everything else to `face`, a FastAPI application, whose routing and validation
cost more than the whole of a request's way through `service`.
"""

import asyncio
from collections.abc import Callable

from cascadia.router.asgi import Application
from cascadia.router.cascade import Cascade
from cascadia.router.conversations import Conversations
from cascadia.router.gate_build import judge_of
from cascadia.router.gates import Gate
from cascadia.router.health import watch
from cascadia.router.journal import Journal
from cascadia.router.metrics import Metrics
from cascadia.router.service import Service
from cascadia.router.settings import JudgeSettings, RouterSettings
from cascadia.router.stage import Stage


class Router:
    """`start` and `stop` within a running event loop. `gate` replaces the one that the settings ask for."""

    def __init__(
        self,
        settings: RouterSettings,
        write_line: Callable[[bytes], object] | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.journal = Journal(write_line, self.metrics.log_failures.inc)
        limits = settings.limits
        self.stages = [Stage(s, limits, self.metrics.stage(s.name)) for s in settings.stages]
        judge = judge_of(settings.judge, limits, self.metrics)
        self.judges = judge.stages
        self.conversations = Conversations(settings.conversations)
        self.cascade = Cascade(
            self.stages,
            gate or judge.gate,
            settings.judge or _SCORED,
            self.metrics,
            self.conversations,
            judge.foresight,
        )
        self.service = Service(settings, self.stages, self.cascade, self.metrics, self.journal)
        self.draining = False
        self._face: Application | None = None
        self._watchers: list[asyncio.Task[None]] = []

    @property
    def judge(self) -> Stage | None:
        """The judge's engines; of an ensemble those of the first member that has some."""
        return self.judges[0] if self.judges else None

    @property
    def all_stages(self) -> list[Stage]:
        """The judges' own among them, last."""
        return [*self.stages, *self.judges]

    @property
    def ready(self) -> bool:
        """Whether a request to the cascade could be answered now."""
        return not self.draining and any(stage.ready for stage in self.stages)

    @property
    def face(self) -> Application:
        if self._face is None:
            raise RuntimeError("a router serves after `start`")
        return self._face

    async def start(self) -> None:
        from cascadia.router.face import face

        self._face = face(self)
        for stage in self.all_stages:
            for replica in stage.replicas:
                if replica.health_request:
                    self._watchers.append(asyncio.create_task(watch(stage, replica, self.settings.health)))

    async def stop(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        self._watchers.clear()
        for stage in self.all_stages:
            for replica in stage.replicas:
                replica.pool.close()
        self.journal.flush()


_SCORED = JudgeSettings("certainty")
"""Time limits for a gate that was handed in without settings."""

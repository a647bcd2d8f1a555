"""The router as one ASGI application: its parts put together, and a dispatcher in front of them.

POSTs to the OpenAI API go to `Service` at once; everything else goes to a FastAPI application, whose routing and
validation cost more than the whole of a request's way through `Service`.
"""

import asyncio
from collections.abc import Awaitable, Callable

from cascadia.router.cascade import Cascade
from cascadia.router.exchange import Receive, Scope, Send
from cascadia.router.gates import CertaintyGate, Gate, LlmGate
from cascadia.router.health import watch
from cascadia.router.journal import Journal
from cascadia.router.metrics import Metrics
from cascadia.router.metrics_state import RouterState
from cascadia.router.records import Observer
from cascadia.router.requests import APIS
from cascadia.router.samples import Samples
from cascadia.router.service import Service
from cascadia.router.settings import JudgeSettings, RouterSettings
from cascadia.router.shadow import Shadow
from cascadia.router.stage import Stage
from cascadia.router.tracing_setup import tracing_of
from cascadia.router.ui_state import Page
from cascadia.router.verdict_cache import CachedGate

Application = Callable[[Scope, Receive, Send], Awaitable[None]]

JUDGE = "judge"


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
        judge = settings.judge
        self.judge = Stage(judge.stage, limits, self.metrics.stage(JUDGE)) if judge and judge.stage else None
        self.cascade = Cascade(self.stages, gate or _gate(judge, self.judge), judge or _SCORED, self.metrics)
        self.tracing = tracing_of(settings.tracing, self.metrics.spans_lost.inc) if settings.tracing else None
        self.observers: list[Observer] = [self.tracing.done] if self.tracing else []
        self.samples = _samples(settings, self.metrics)
        self.shadow: Shadow | None = None
        if self.samples is not None:
            self.observers.append(self.samples.done)
            if settings.shadow.ratio:
                self.shadow = Shadow(settings.shadow, self.samples, self)
                self.observers.append(self.shadow.done)
        self.page = Page(self) if settings.page else None
        if self.page is not None:
            self.observers.append(self.page.done)
        self.service = Service(
            settings, self.stages, self.cascade, self.metrics, self.journal, self.tracing, self.observers
        )
        self.metrics.registry.register(RouterState(self))
        self.draining = False
        self._face: Application | None = None
        self._watchers: list[asyncio.Task[None]] = []

    @property
    def all_stages(self) -> list[Stage]:
        """The judge's own among them, last."""
        return [*self.stages, *([self.judge] if self.judge else [])]

    @property
    def ready(self) -> bool:
        """Whether a request to the cascade could be answered now."""
        return not self.draining and any(stage.ready for stage in self.stages)

    async def start(self) -> None:
        from cascadia.router.face import face

        self._face = face(self)
        if self.page is not None:
            self.page.history.start()
        for stage in self.all_stages:
            for replica in stage.replicas:
                if replica.health_request:
                    self._watchers.append(asyncio.create_task(watch(stage, replica, self.settings.health)))

    async def stop(self) -> None:
        if self.page is not None:
            self.page.history.stop()
        if self.shadow is not None:
            await self.shadow.stop()
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        self._watchers.clear()
        for stage in self.all_stages:
            for replica in stage.replicas:
                replica.pool.close()
        self.journal.flush()
        if self.samples is not None:
            await self.samples.stop()
        if self.tracing is not None:
            await self.tracing.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in APIS:
            await self.service(scope, receive, send)
        elif self._face is not None:
            await self._face(scope, receive, send)


_SCORED = JudgeSettings("certainty")
"""Time limits for a gate that was handed in without settings."""


def _samples(settings: RouterSettings, metrics: Metrics) -> Samples | None:
    if settings.samples is None:
        return None
    return Samples(
        settings.samples,
        lambda kind, rows: metrics.samples.labels(kind).inc(rows),
        lambda reason, rows: metrics.samples_lost.labels(reason).inc(rows),
    )


def _gate(judge: JudgeSettings | None, stage: Stage | None) -> Gate | None:
    if judge is None:
        return None
    if judge.kind == "certainty":
        return CertaintyGate()
    if stage is None:
        raise ValueError("an llm judge needs the replicas of its model")
    asked = LlmGate(stage, judge.reads_tokens)
    return CachedGate(asked, judge.cache_size) if judge.cache_size else asked

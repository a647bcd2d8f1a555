"""Observers of requests that are over: spans, the workload log, shadow evaluation, the page. They outlive
plans.
"""

import sys
from typing import Protocol

from cascadia.router.cascade.records import Observer
from cascadia.router.observers.samples import Samples
from cascadia.router.observers.shadow import Cascaded, Shadow
from cascadia.router.observers.tracing import Tracing
from cascadia.router.observers.tracing_setup import tracing_of
from cascadia.router.settings.model import RouterSettings
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.ui.evaluations import Evaluations
from cascadia.router.ui.state import Page, Shown

TURN_S = 0.0005


class Watched(Cascaded, Shown, Protocol):
    """A router, as shadow evaluations and the page see it."""


class Observers:
    """Observers that the settings of the start ask for. `observers` are told of each request, in order."""

    def __init__(self, settings: RouterSettings, metrics: Metrics, router: Watched) -> None:
        self.tracing: Tracing | None = None
        self.samples: Samples | None = None
        self.shadow: Shadow | None = None
        self.page: Page | None = None
        self.evaluations = Evaluations()
        self.observers: list[Observer] = []
        if settings.tracing is not None:
            self.tracing = tracing_of(settings.tracing, metrics.spans_lost.inc)
            self.observers.append(self.tracing.done)
        if settings.samples is not None:
            self.samples = Samples(
                settings.samples,
                lambda kind, rows: metrics.samples.labels(kind).inc(rows),
                lambda reason, rows: metrics.samples_lost.labels(reason).inc(rows),
            )
            self.observers.append(self.samples.done)
            if settings.shadow.ratio:
                self.shadow = Shadow(settings.shadow, self.samples, router, self.evaluations)
                self.observers.append(self.shadow.done)
        if settings.page:
            self.page = Page(router, self.evaluations)
            self.observers.append(self.page.done)

    def start(self) -> None:
        if self.tracing is not None or self.samples is not None:
            # Their threads compute, and by default may do so for 5 ms before the event loop gets its turn.
            sys.setswitchinterval(TURN_S)
        if self.shadow is not None:
            self.shadow.start()
        if self.page is not None:
            self.page.history.start()

    async def stop(self) -> None:
        """Writes what was seen and is not written yet, as far as that can be done soon."""
        if self.page is not None:
            self.page.history.stop()
        if self.shadow is not None:
            await self.shadow.stop()
        if self.samples is not None:
            await self.samples.stop()
        if self.tracing is not None:
            await self.tracing.stop()

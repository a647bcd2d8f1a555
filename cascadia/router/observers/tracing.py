"""OpenTelemetry spans: a request, each stage's turn in it, each verdict. Made of what was seen, when all is over.

While a request runs, tracing costs it a few random numbers and a header. Off, it costs nothing, and nothing of
OpenTelemetry is imported. No attribute holds a word of anyone's prompt or answer.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cascadia import __version__
from cascadia.router.cascade.records import Record
from cascadia.router.settings.model import TracingSettings
from cascadia.router.telemetry.stage_record import Step
from cascadia.router.telemetry.trace_context import Trace, begin

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

MOST_WAITING = 2048
"""Spans that may wait for the collector, unless OTEL_BSP_MAX_QUEUE_SIZE says otherwise."""
STOP_S = 3.0
"""How long the last spans may take to get away when the router stops; then trying again is given up."""


class Tracing:
    """`exporter` takes spans in a thread of its own. `lost` is told how many did not get there."""

    def __init__(
        self, settings: TracingSettings, exporter: "SpanExporter", lost: Callable[[int], None]
    ) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self.ratio = settings.ratio
        self.follow = settings.follow
        named = {} if settings.service is None else {"service.name": settings.service}
        if settings.service is None and "service.name" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
            named = {"service.name": os.environ.get("OTEL_SERVICE_NAME") or "cascadia-router"}
        self._resource = Resource.create({"service.version": __version__, **named})
        self._scope = InstrumentationScope("cascadia.router", __version__)
        self._exporter = exporter
        self._lost = lost
        self._given = 0
        self._taken = 0
        most = os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE", "")
        self._most_waiting = int(most) if most.isdecimal() and int(most) else MOST_WAITING
        self._processor = BatchSpanProcessor(self._counting(), max_queue_size=self._most_waiting)
        self.stop_s = STOP_S

    def begin(self, traceparent: bytes, forwarded: bytes) -> Trace:
        """`forwarded` are the header lines that an engine would get without tracing."""
        lines = forwarded.split(b"\r\n")
        others = b"".join(line + b"\r\n" for line in lines if line and not line.startswith(b"traceparent:"))
        return begin(traceparent, others, self.ratio, follow=self.follow)

    def done(self, record: Record) -> None:
        """An observer of requests."""
        if record.trace is None or not record.trace.sampled:
            return
        spans = list(self._spans(record, record.trace))
        # Each side counts for itself: what is between them waits. The processor would drop the oldest, and not say so.
        if self._given - self._taken + len(spans) > self._most_waiting:
            self._lost(len(spans))
            return
        self._given += len(spans)
        for span in spans:
            self._processor.on_end(span)

    async def stop(self) -> None:
        """Sends what is left, for `stop_s` about: a collector that is gone must not hold the router up."""
        done, loop = asyncio.Event(), asyncio.get_running_loop()

        def stop() -> None:
            self._processor.shutdown()  # type: ignore[no-untyped-call]
            # The loop may be gone where this took too long.
            if not loop.is_closed():
                loop.call_soon_threadsafe(done.set)

        # A daemon: the interpreter waits for other threads at its end, and this one may wait for a collector.
        threading.Thread(target=stop, daemon=True).start()
        # It waits between its tries; once shut down it does not.
        give_up = loop.call_later(self.stop_s, self._exporter.shutdown)
        try:
            async with asyncio.timeout(2 * self.stop_s):
                await done.wait()
        except TimeoutError:
            logging.getLogger(__name__).warning("the last spans did not reach the collector in time")
        finally:
            give_up.cancel()

    def _counting(self) -> "SpanExporter":
        from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

        class Counting(SpanExporter):
            """The exporter itself writes to the log of every try that fails; a number says as much."""

            def export(counting, spans: "Sequence[ReadableSpan]") -> SpanExportResult:
                result = self._exporter.export(spans)
                self._taken += len(spans)
                if result is not SpanExportResult.SUCCESS:
                    self._lost(len(spans))
                return result

            def shutdown(counting) -> None:
                self._exporter.shutdown()

        return Counting()

    def _spans(self, record: Record, trace: Trace) -> "Iterator[ReadableSpan]":
        from opentelemetry.trace import SpanKind

        make = _Maker(self, trace)
        entry = record.entry
        path = entry["api"]
        error = entry.get("error") or (str(entry["status"]) if entry["status"] >= 400 else None)
        yield make(
            f"{path} {entry['model']}",
            SpanKind.SERVER,
            trace.span_id,
            trace.parent_id,
            (record.started_at_s, record.ended_at_s),
            {
                "gen_ai.operation.name": "text_completion" if path == "completions" else path,
                "gen_ai.request.model": entry["model"],
                "gen_ai.response.model": entry.get("stage"),
                "http.response.status_code": entry["status"],
                "error.type": error,
                "cascadia.request_id": entry["request_id"],
                "cascadia.score": entry.get("score"),
                "cascadia.attempts": len(record.steps),
                "cascadia.stopped": entry.get("stopped"),
            },
            failed=entry["status"] >= 500 or (error is not None and entry["status"] == 200),
            first_at_s=record.first_at_s,
        )
        for step in record.steps:
            yield from self._of_step(step, trace, make)

    def _of_step(self, step: Step, trace: Trace, make: "_Maker") -> "Iterator[ReadableSpan]":
        from opentelemetry.trace import SpanKind

        ended_at_s = step.ended_at_s or step.started_at_s
        if step.answered_at_s is not None:
            ended_at_s = max(ended_at_s, step.answered_at_s)
        yield make(
            f"stage {step.stage}",
            SpanKind.CLIENT,
            step.span_id,
            trace.span_id,
            (step.started_at_s, ended_at_s),
            {
                "gen_ai.request.model": step.stage,
                "gen_ai.usage.input_tokens": step.input_tokens or None,
                "gen_ai.usage.output_tokens": step.output_tokens or None,
                "cascadia.stage": step.stage,
                "cascadia.outcome": step.outcome,
                "cascadia.score": step.score,
                "cascadia.replica": step.replica,
                "cascadia.tries": step.tries,
                "cascadia.queue_s": step.queued_s,
            },
            first_at_s=step.first_at_s,
        )
        if step.judged_at_s is not None:
            yield make(
                "judge",
                SpanKind.CLIENT,
                step.judge_span_id,
                step.span_id,
                (step.judged_at_s, step.judged_at_s + step.judge_s),
                {
                    "cascadia.stage": step.stage,
                    "cascadia.score": step.score,
                    "error.type": step.judge_failure,
                },
                failed=step.judge_failure is not None,
            )


class _Maker:
    """Spans of one trace. Times of the event loop become those of the clock on the wall, by its reading now."""

    def __init__(self, tracing: Tracing, trace: Trace) -> None:
        self.tracing = tracing
        self.trace = trace
        self.offset_ns = time.time_ns() - int(asyncio.get_running_loop().time() * 1e9)

    def __call__(
        self,
        name: str,
        kind: Any,
        span_id: int,
        parent_id: int,
        seconds: tuple[float, float],
        attributes: dict[str, Any],
        *,
        failed: bool = False,
        first_at_s: float | None = None,
    ) -> "ReadableSpan":
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

        def context(of: int, *, remote: bool = False) -> SpanContext:
            return SpanContext(self.trace.trace_id, of, remote, TraceFlags(TraceFlags.SAMPLED))

        first = [] if first_at_s is None else [Event("first part", timestamp=self._ns(first_at_s))]
        return ReadableSpan(
            name,
            context(span_id),
            parent=context(parent_id, remote=parent_id == self.trace.parent_id) if parent_id else None,
            resource=self.tracing._resource,
            attributes={key: value for key, value in attributes.items() if value is not None},
            events=first,
            kind=kind,
            status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
            start_time=self._ns(seconds[0]),
            end_time=self._ns(seconds[1]),
            instrumentation_scope=self.tracing._scope,
        )

    def _ns(self, at_s: float) -> int:
        return int(at_s * 1e9) + self.offset_ns

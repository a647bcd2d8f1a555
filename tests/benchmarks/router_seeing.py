"""What it costs to see: CPU a request for spans, samples and the page, and how long threads hold up the event loop.

    python -m tests.benchmarks.router_seeing

A request here had two stages' turns and a verdict. The collector is one that takes everything at once, in this process.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cascadia.router.cascade.records import Record
from cascadia.router.observers.observers import TURN_S
from cascadia.router.observers.samples import Samples
from cascadia.router.observers.tracing import Tracing
from cascadia.router.openai.requests import read_fields
from cascadia.router.settings.model import SampleSettings, TracingSettings
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.telemetry.stage_record import Step
from cascadia.router.telemetry.trace_context import Trace
from cascadia.router.ui.history import tick_of

REQUESTS = 10_000
RATE_RPS = 1_000
STALLS_S = 6.0
BODY = (
    b'{"model":"cascadia","messages":[{"role":"system","content":"You are helpful."},'
    b'{"role":"user","content":"' + b"What is the capital of France? " * 20 + b'"}]}'
)
PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Discarding(InMemorySpanExporter):
    """Encodes as the real one does, and sends nothing."""

    def export(self, spans):  # type: ignore[no-untyped-def]
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

        encode_spans(spans).SerializePartialToString()
        return super().export(())


def record(trace: Trace | None) -> Record:
    now_s = asyncio.get_running_loop().time()
    entry = {
        "api": "chat",
        "model": "cascadia",
        "stage": "large",
        "score": None,
        "attempts": 2,
        "stopped": None,
    }
    found = Record(entry, now_s - 1.0, body=BODY, fields=read_fields(BODY), trace=trace)
    for name, outcome in (("small", "score"), ("large", "accepted")):
        step = Step(
            name, now_s - 0.5, first_at_s=now_s - 0.4, answered_at_s=now_s, replica=f"{name}-0", tries=1
        )
        step.used(150, 80)
        step.ended(outcome)
        found.steps.append(step)
    found.steps[0].judged_at_s, found.steps[0].score, found.steps[0].judge_s = now_s - 0.1, 40.0, 0.05
    found.close(200, now_s - 0.4, now_s)
    entry["request_id"] = "0123456789abcdef-1f"
    return found


def cost_us(what: Callable[[Record], object], records: list[Record]) -> float:
    """CPU of this thread and of those it works for, a record."""
    started_s = time.process_time()
    for one in records:
        what(one)
    return 1e6 * (time.process_time() - started_s) / len(records)


async def traced(tracing: Tracing) -> tuple[float, float, float]:
    """Microseconds a request: under way, made when it is over, encoded by the thread."""
    forwarded = b"x-request-id: 0123456789abcdef-1f\r\ntraceparent: " + PARENT + b"\r\n"
    records = [record(None) for _ in range(REQUESTS)]

    def under_way(one: Record) -> None:
        one.trace = trace = tracing.begin(PARENT, forwarded)
        trace.forwarded(one.steps[0])
        trace.forwarded(one.steps[0], judge=True)
        trace.forwarded(one.steps[1])

    during = cost_us(under_way, records)

    def over(one: Record) -> None:
        tracing.done(one)

    made = encoded = 0.0
    for first in range(0, REQUESTS, 100):
        part = records[first : first + 100]
        made += cost_us(over, part) * len(part) / REQUESTS
        started_s = time.process_time()
        tracing._processor.force_flush()
        encoded += 1e6 * (time.process_time() - started_s) / REQUESTS
    return during, made, encoded


async def stalls(observe: Callable[[Record], object] | None) -> tuple[float, float]:
    """p99 and worst lateness in ms of a timer of 1 ms, while `observe` is told of `RATE_RPS` requests a second."""
    loop = asyncio.get_running_loop()
    late_ms: list[float] = []
    one, end_s = record(Trace(1, 2, True, b"")), loop.time() + STALLS_S
    due_s, told = time.perf_counter(), 0
    started_s = due_s
    while loop.time() < end_s:
        due_s = max(due_s + 0.001, time.perf_counter())
        await asyncio.sleep(due_s - time.perf_counter())
        late_ms.append(1e3 * (time.perf_counter() - due_s))
        while observe is not None and told < (time.perf_counter() - started_s) * RATE_RPS:
            told += 1
            observe(one)
    late_ms.sort()
    return late_ms[int(0.99 * len(late_ms))], late_ms[-1]


async def main(folder: Path) -> None:
    metrics = Metrics()
    samples = Samples(SampleSettings(folder), lambda kind, rows: None, lambda why, rows: None)
    tracing = Tracing(TracingSettings("http://collector/v1/traces"), Discarding(), metrics.spans_lost.inc)
    records = [record(None) for _ in range(REQUESTS)]
    row = cost_us(samples.done, records)
    during, made, encoded = await traced(tracing)
    for name in ("small", "medium", "large"):
        stage = metrics.stage(name)
        stage.escalated("score")
    started_s = time.process_time()
    for _ in range(200):
        tick_of(metrics, 0.0)
    tick = 1e6 * (time.process_time() - started_s) / 200
    print(f"spans, while a request runs            {during:6.1f} us a request")
    print(f"spans, made when it is over            {made:6.1f} us a request of 4 spans")
    print(f"spans, encoded by their thread         {encoded:6.1f} us a request of 4 spans")
    print(f"a row of the workload log, its writing included {row:6.1f} us a request")
    print(f"the page's memory of counters          {tick:6.1f} us every 5 s")
    sys.setswitchinterval(TURN_S)
    for name, observe in (("nothing", None), ("spans", tracing.done), ("rows", samples.done)):
        p99, worst = await stalls(observe)
        print(f"timer of 1 ms late, {name} at {RATE_RPS}/s: p99 {p99:5.2f} ms, worst {worst:5.2f} ms")
    await samples.stop()
    await tracing.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        uvloop.run(main(Path(place)))

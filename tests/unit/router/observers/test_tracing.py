"""Spans: request, stage and judge; continued from the caller, passed on to engines; without a word of anyone's."""

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cascadia.domain.errors import BadInput
from cascadia.router.observers.tracing import Tracing
from cascadia.router.observers.tracing_setup import tracing_from
from cascadia.router.settings.model import (
    JudgeSettings,
    ReplicaSettings,
    RouterSettings,
    StageSettings,
    TracingSettings,
)
from cascadia.router.telemetry.trace_context import begin, parent_of
from cascadia.testing.engines import FakeEngine, send, started
from cascadia.testing.routers import QUICK, Running, ScriptedGate, run, running, stages

ENDPOINT = "http://127.0.0.1:1/v1/traces"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def watched(router: Running, **more: Any) -> InMemorySpanExporter:
    """Gives the router tracing to an exporter that keeps spans."""
    exporter = InMemorySpanExporter()
    router.router.metrics.spans_lost.inc(0)
    tracing = Tracing(TracingSettings(ENDPOINT, **more), exporter, router.router.metrics.spans_lost.inc)
    router.router.observers.tracing = router.router.service.tracing = tracing
    router.router.observers.observers.append(tracing.done)
    return exporter


def spans(router: Running, exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    tracing = router.router.observers.tracing
    assert tracing is not None
    tracing._processor.force_flush()
    return {span.name: span for span in exporter.get_finished_spans()}


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def header(head: str, name: str) -> str:
    found = re.search(rf"^{name}: (.*)\r$", head, re.MULTILINE)
    return found.group(1) if found else ""


def test_a_request_its_stages_and_its_verdicts_are_spans_of_the_callers_trace() -> None:
    async def main() -> None:
        small, large = FakeEngine("secret weak answer"), FakeEngine("secret strong answer")
        async with started(small, large):
            gate = ScriptedGate({"secret weak answer": 20.0})
            async with running(stages(small, large, thresholds=(50.0,)), gate) as router:
                exporter = watched(router)
                answer = await router.chat(headers={"traceparent": PARENT, "tracestate": "a=b"})
                assert answer.status_code == 200
                found = spans(router, exporter)
        assert set(found) == {"chat cascadia", "stage small", "stage large", "judge"}
        request, first, second, judge = (
            found[name] for name in ("chat cascadia", "stage small", "stage large", "judge")
        )
        assert {f"{span.context.trace_id:032x}" for span in found.values()} == {PARENT.split("-")[1]}
        assert f"{request.parent.span_id:016x}" == PARENT.split("-")[2]
        assert first.parent.span_id == second.parent.span_id == request.context.span_id
        assert judge.parent.span_id == first.context.span_id
        assert attributes(request)["http.response.status_code"] == 200
        assert attributes(request)["cascadia.attempts"] == 2
        assert attributes(first)["cascadia.outcome"] == "score"
        assert attributes(first)["cascadia.score"] == attributes(judge)["cascadia.score"] == 20.0
        assert attributes(second)["gen_ai.usage.output_tokens"] == 3
        assert request.start_time <= first.start_time <= judge.start_time <= judge.end_time
        assert judge.end_time <= second.start_time <= second.end_time <= request.end_time
        assert "secret" not in "".join(span.to_json() for span in found.values())
        assert "2+2" not in "".join(span.to_json() for span in found.values())
        for engine, span in ((small, first), (large, second)):
            told = header(engine.heads[0], "traceparent")
            assert told == f"00-{PARENT.split('-')[1]}-{span.context.span_id:016x}-01"
            assert header(engine.heads[0], "tracestate") == "a=b"

    run(main)


def test_a_judge_on_an_engine_goes_on_with_the_trace() -> None:
    async def main() -> None:
        small, large, judge = FakeEngine("four"), FakeEngine("4"), FakeEngine("9")
        settings = JudgeSettings("llm", StageSettings("judge", "judge", (ReplicaSettings(""),)))
        async with started(small, large, judge):
            assert settings.stage is not None
            with_url = replace(
                settings, stage=replace(settings.stage, replicas=(ReplicaSettings(judge.url),))
            )
            async with running(stages(small, large, thresholds=(50.0,)), judge=with_url) as router:
                exporter = watched(router)
                await router.chat()
                found = spans(router, exporter)
        assert header(judge.heads[0], "traceparent").split("-")[2] == f"{found['judge'].context.span_id:016x}"
        assert found["chat cascadia"].parent is None

    run(main)


def test_a_stream_straight_to_a_stage_says_when_its_first_part_came() -> None:
    async def main() -> None:
        small, large = FakeEngine("hello"), FakeEngine("hello")
        async with started(small, large), running(stages(small, large)) as router:
            exporter = watched(router)
            await router.chat("small", stream=True, stream_options={"include_usage": True})
            found = spans(router, exporter)
        stage = found["stage small"]
        assert [event.name for event in stage.events] == ["first part"]
        assert stage.start_time <= stage.events[0].timestamp <= stage.end_time
        assert attributes(stage)["gen_ai.usage.input_tokens"] == 10

    run(main)


def test_a_failure_is_an_error_of_the_request_and_named() -> None:
    async def broken(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        send(writer, 500, b"{}")

    async def main() -> None:
        small = FakeEngine(answer=broken)
        async with started(small), running(stages(small), max_tries=1) as router:
            exporter = watched(router)
            await router.chat("small")
            found = spans(router, exporter)
        assert not found["chat small"].status.is_ok
        assert attributes(found["chat small"])["error.type"] == "status"
        assert attributes(found["stage small"])["cascadia.outcome"] == "status"

    run(main)


@pytest.mark.parametrize(
    ("more", "parent", "kept"),
    [
        ({"ratio": 0.0}, None, False),
        ({"ratio": 0.0}, PARENT, True),
        ({"ratio": 1.0}, PARENT[:-1] + "0", False),
        ({"ratio": 1.0, "follow": False}, PARENT[:-1] + "0", True),
        ({"ratio": 1.0}, "00-nonsense", True),
    ],
)
def test_what_is_sampled_follows_the_caller_or_else_the_ratio(
    more: dict[str, Any], parent: str | None, kept: bool
) -> None:
    async def main() -> None:
        small = FakeEngine()
        async with started(small), running(stages(small)) as router:
            exporter = watched(router, **more)
            await router.chat("small", headers={"traceparent": parent} if parent else None)
            assert bool(spans(router, exporter)) == kept
        assert header(small.heads[0], "traceparent").endswith("-01" if kept else "-00")

    run(main)


def test_about_the_ratio_of_new_traces_is_sampled() -> None:
    traces = [begin(b"", b"", 0.25, follow=True) for _ in range(4000)]
    assert 800 < sum(trace.sampled for trace in traces) < 1200
    assert len({trace.trace_id for trace in traces}) == 4000


@pytest.mark.parametrize(
    "text",
    ["", "00-" + "0" * 32 + "-b7ad6b7169203331-01", PARENT + "-x", PARENT.upper(), "ff" + PARENT[2:]],
)
def test_a_traceparent_that_is_none_begins_a_trace_of_its_own(text: str) -> None:
    assert parent_of(text.encode()) is None


def test_a_later_version_of_traceparent_is_read_as_the_first() -> None:
    assert parent_of(b"cc" + PARENT[2:].encode() + b"-what-the-future-brings") == parent_of(PARENT.encode())


async def collector(bodies: list[bytes], arrived: asyncio.Event) -> asyncio.Server:
    """An OTLP/HTTP receiver on a socket of its own."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert head.startswith("post /v1/traces ")
        length = int(head.partition("content-length: ")[2].split("\r\n")[0])
        bodies.append(await reader.readexactly(length))
        content = ExportTraceServiceResponse().SerializeToString()
        send(writer, 200, content, "application/x-protobuf", "connection: close\r\n")
        await writer.drain()
        writer.close()
        arrived.set()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


def traced(engine: FakeEngine, endpoint: str) -> RouterSettings:
    return RouterSettings(stages(engine), None, health=QUICK, tracing=TracingSettings(endpoint))


def test_spans_reach_a_collector_by_otlp_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")

    async def main() -> None:
        bodies: list[bytes] = []
        arrived = asyncio.Event()
        server = await collector(bodies, arrived)
        port = server.sockets[0].getsockname()[1]
        small = FakeEngine()
        async with started(small):
            async with running(traced(small, f"http://127.0.0.1:{port}/v1/traces")) as router:
                await router.chat("small")
            # Stopping the router sends what is left.
            await asyncio.wait_for(arrived.wait(), 60)
        server.close()
        found = ExportTraceServiceRequest.FromString(bodies[0]).resource_spans[0]
        resource = {each.key: each.value.string_value for each in found.resource.attributes}
        assert resource["service.name"] == "cascadia-router"
        assert resource["deployment.environment"] == "test"
        names = [span.name for span in found.scope_spans[0].spans]
        assert sorted(names) == ["chat small", "stage small"]

    run(main)


def test_a_collector_that_is_gone_costs_spans_that_are_counted_and_nothing_else() -> None:
    async def main() -> None:
        small = FakeEngine()
        async with started(small):
            async with running(traced(small, ENDPOINT)) as router:
                tracing = router.router.observers.tracing
                assert tracing is not None
                tracing.stop_s = 0.2
                answer = await router.chat("small")
                assert answer.status_code == 200
            assert router.router.metrics.spans_lost.value == 2

    run(main)


def test_tracing_is_off_without_an_endpoint_and_engines_get_the_callers_header_as_it_came() -> None:
    async def main() -> None:
        small = FakeEngine()
        async with started(small), running(stages(small)) as router:
            assert router.router.observers.tracing is None
            await router.chat("small", headers={"traceparent": PARENT})
        assert header(small.heads[0], "traceparent") == PARENT

    run(main)


BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/"}


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, None),
        (BASE, TracingSettings("http://collector:4318/v1/traces")),
        (BASE | {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/x"}, TracingSettings("http://t/x")),
        (BASE | {"OTEL_SDK_DISABLED": "TRUE"}, None),
        (BASE | {"OTEL_TRACES_EXPORTER": "none"}, None),
        (
            BASE | {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"},
            TracingSettings("http://collector:4318/v1/traces", 0.1),
        ),
        (
            BASE | {"OTEL_TRACES_SAMPLER": "always_off"},
            TracingSettings("http://collector:4318/v1/traces", 0.0, follow=False),
        ),
    ],
)
def test_the_standard_variables_say_where_to(
    environment: dict[str, str], wanted: TracingSettings | None
) -> None:
    assert tracing_from(environment) == wanted


@pytest.mark.parametrize(
    "wrong",
    [
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        {"OTEL_TRACES_SAMPLER": "jaeger_remote"},
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "7"},
    ],
)
def test_a_variable_that_asks_for_what_there_is_not_is_refused_by_name(wrong: dict[str, str]) -> None:
    with pytest.raises(BadInput) as error:
        tracing_from(BASE | wrong)
    assert str(error.value).startswith(("OTEL_EXPORTER", "OTEL_TRACES"))


def test_spans_that_find_no_room_are_counted_and_those_that_wait_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "5")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5")

    async def main() -> None:
        small = FakeEngine()
        async with started(small), running(stages(small)) as router:
            exporter = watched(router)
            for _ in range(3):
                await router.chat("small")
            # Two requests of two spans find room; the third would be the sixth span.
            assert router.router.metrics.spans_lost.value == 2
            spans(router, exporter)
            assert len(exporter.get_finished_spans()) == 4
            await router.chat("small")
            assert router.router.metrics.spans_lost.value == 2

    run(main)

"""Whatever the description of the API allows, or forbids, has an answer that it describes: none is a fault of ours."""

import asyncio
import itertools
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
import uvloop
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from cascadia.testing.engines import FakeEngine, completion, send, started, stream
from cascadia.testing.routers import ScriptedGate, running, stages
from tests.examples import examples
from tests.unit.router.openai.test_responses import response

EXAMPLES = examples(20)
"""Requests for each operation; tests/e2e/test_clients.py sends more."""
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


async def anything(engine: FakeEngine, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """An answer that fits the path."""
    path = engine.heads[-1].split()[1]
    if path == "/v1/responses" and body.get("stream"):
        last = json.dumps({"type": "response.completed", "response": response("fine")})
        send(writer, 200, f"event: response.completed\ndata: {last}\n\n".encode(), "text/event-stream")
    elif path == "/v1/responses":
        send(writer, 200, json.dumps(response("fine")).encode())
    elif path == "/v1/embeddings":
        send(writer, 200, b'{"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 1}}')
    elif path in ("/tokenize", "/detokenize"):
        send(writer, 200, b'{"tokens": [], "prompt": ""}')
    elif body.get("stream"):
        stream(writer, "fine", body)
    else:
        send(writer, 200, completion("fine"))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a router in a thread of its own: the fuzzer does not await."""
    found: list[str] = []
    ready, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        engines = FakeEngine(answer=anything), FakeEngine(answer=anything)
        gate = ScriptedGate({"fine": 40.0})
        async with started(*engines), running(stages(*engines, thresholds=(50,)), gate) as up:
            found.append(f"http://127.0.0.1:{up.port}")
            ready.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=lambda: uvloop.run(serve()))
    thread.start()
    assert ready.wait(60)
    yield found[0]
    ended.set()
    thread.join(timeout=60)


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_that_can_be_written_is_a_failure_of_ours(address: str, mode: GenerationMode) -> None:
    seen = fuzzed(address, mode, EXAMPLES)
    assert {"POST /v1/chat/completions", "POST /v1/responses", "POST /v1/embeddings"} <= set(seen)


def fuzzed(address: str, mode: GenerationMode, examples: int) -> list[str]:
    """The operations that `examples` requests each were sent to, and answered as described."""
    described = schemathesis.openapi.from_url(f"{address}/openapi.json")
    seen = []
    for found in described.get_all_operations():
        operation = found.ok()
        if mode is GenerationMode.NEGATIVE and not operation.body:
            continue  # nothing in it that could be wrong
        seen.append(operation.label)
        _fuzz(operation.as_strategy(generation_mode=mode), examples)
    return seen


def _fuzz(cases: Any, examples: int) -> None:
    models = itertools.cycle(("cascadia", "small", None))

    @given(cases)
    @settings(
        max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
    )
    def check(case: schemathesis.Case) -> None:
        model = next(models)
        if model and isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
            case.body["model"] = model  # or nearly all would be asked of nobody
        answer = case.call()
        # The deadline is the client's own, and may be a microsecond.
        own = answer.status_code == 504 and b"deadline_ms" in (answer.request.body or b"")
        case.validate_response(answer, checks=CHECKS[1:] if own else CHECKS)

    check()

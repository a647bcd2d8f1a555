"""The front as an application: chats and completions with a score each; all else is the engine's own answer."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
import orjson
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from prometheus_client.exposition import generate_latest
from starlette.types import Receive, Scope, Send

from cascadia import __version__
from cascadia.probe_service.scoring import Scoring
from cascadia.probe_service.slots import Busy, Slots
from cascadia.probe_service.wire import (
    DONE,
    MEMBER,
    SKIP_BELOW,
    as_events,
    comment,
    not_begun,
    tokens_in_event,
    tokens_of,
)

BODY_MAX_BYTES = 8 * 2**20
EVENT_BYTES_MAX = 16 * 2**20
ANSWERS = ("/v1/chat/completions", "/v1/completions")
PASSED_ON = ("/v1/models", "/health", "/metrics")
"""Not the rest: prompts of others stand in `/slots`."""
KEPT_HEADERS = ("authorization", "traceparent", "tracestate", "x-request-id")


class Front:
    """`engine` is a client at the engine's address."""

    def __init__(self, engine: httpx.AsyncClient, scoring: Scoring, slots: Slots) -> None:
        self.engine, self.scoring, self.slots = engine, scoring, slots

    async def answered(self, path: str, body: dict[str, Any], headers: Mapping[str, str]) -> Response:
        """Raises `Busy`, and `httpx.HTTPError` where the engine does not answer."""
        slot = await self.slots.take()
        held = False
        try:
            least = body.pop(SKIP_BELOW, None)
            if isinstance(least, int | float) and path == ANSWERS[0]:
                expected, prompt = await self.scoring.expected(slot, body, headers)
                if expected is not None and expected < least:
                    self.scoring.skipped.inc()
                    document = not_begun(body.get("model"), prompt, chat=True)
                    if body.get("stream"):
                        return Response(as_events(document), media_type="text/event-stream")
                    return JSONResponse(document | {MEMBER: {"expected": round(expected, 3)}})
            asked = self.engine.build_request("POST", path, json=body | {"id_slot": slot}, headers=headers)
            reply = await self.engine.send(asked, stream=True)
            if reply.status_code == 200 and body.get("stream"):
                held = True
                return _Streamed(self._events(reply, slot, headers), reply, lambda: self.slots.give(slot))
            try:
                content = await reply.aread()
            finally:
                await reply.aclose()
            if reply.status_code == 200 and body.get("n", 1) == 1:
                content = await self._with_score(content, slot, headers)
            return Response(content, reply.status_code, media_type=reply.headers.get("content-type"))
        finally:
            if not held:
                self.slots.give(slot)

    async def _with_score(self, content: bytes, slot: int, headers: Mapping[str, str]) -> bytes:
        document = orjson.loads(content)
        tokens = tokens_of(document)
        if tokens is None:
            return content
        scored = await self.scoring.answered(slot, *tokens, headers)
        return orjson.dumps(document | {MEMBER: scored.document()})

    async def _events(
        self, reply: httpx.Response, slot: int, headers: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        """The engine's events as they come; the score before the last."""
        held, tokens = b"", None
        async for part in reply.aiter_bytes():
            *events, held = (held + part).split(b"\n\n")
            for event in events:
                tokens = tokens_in_event(event) or tokens
                if event.startswith(DONE) and tokens is not None:
                    yield comment(await self.scoring.answered(slot, *tokens, headers))
                yield event + b"\n\n"
            if len(held) > EVENT_BYTES_MAX:
                return
        yield held


class _Streamed(StreamingResponse):
    """Gives back what it holds however it ends, also where the client has gone before the first event. The engine
    then stops writing."""

    def __init__(self, events: AsyncIterator[bytes], reply: httpx.Response, give: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._reply, self._give = reply, give

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            try:
                await self._reply.aclose()
            finally:
                self._give()


def application(front: Front) -> FastAPI:
    app = FastAPI(
        title="Cascadia probe", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )

    @app.exception_handler(Busy)
    async def busy(_: Request, __: Busy) -> JSONResponse:
        return _error(429, "overloaded", "Too many requests wait for a slot.", {"retry-after": "1"})

    @app.exception_handler(httpx.HTTPError)
    async def gone(_: Request, error: httpx.HTTPError) -> JSONResponse:
        return _error(502, "engine_unreachable", f"The engine does not answer ({type(error).__name__}).")

    async def answers(request: Request) -> Response:
        length = request.headers.get("content-length", "")
        if not length.isdigit() or int(length) > BODY_MAX_BYTES:
            return _error(413, "body_too_large", f"Send at most {BODY_MAX_BYTES:,} bytes, and say how many.")
        try:
            body = orjson.loads(await request.body())
        except orjson.JSONDecodeError:
            body = None
        if not isinstance(body, dict):
            return _error(400, "invalid_request", "The body is no JSON object.")
        return await front.answered(request.url.path, body, _headers(request))

    async def passed_on(request: Request) -> Response:
        path = request.url.path
        reply = await front.engine.get(path, headers=_headers(request))
        content = reply.content
        if path == "/metrics" and reply.status_code == 200:
            content += generate_latest(front.scoring.registry)
        return Response(content, reply.status_code, media_type=reply.headers.get("content-type"))

    for path in ANSWERS:
        app.add_api_route(path, answers, methods=["POST"])
    for path in PASSED_ON:
        app.add_api_route(path, passed_on, methods=["GET"])
    return app


def _headers(request: Request) -> dict[str, str]:
    return {name: value for name in KEPT_HEADERS if (value := request.headers.get(name)) is not None}


def _error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    kind = "invalid_request_error" if status < 429 else "overloaded" if status == 429 else "engine_error"
    error = {"message": message, "type": kind, "code": code}
    return JSONResponse({"error": error}, status, dict(headers or {}))

"""The engine as an application: POST /v1/classify and /v1/rerank; models, health, readiness, metrics."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
from fastapi import FastAPI, Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from cascadia import __version__
from cascadia.onepass.batches import Batches, Busy
from cascadia.onepass.exits import EXIT_HEADER, add_exits, exits_told, exits_used
from cascadia.onepass.model import Task
from cascadia.onepass.runner import BadText, Forwarded, Runner
from cascadia.onepass.wire import (
    BadRequest,
    ClassifyBody,
    RerankBody,
    bad_text,
    classified,
    read_classify,
    read_rerank,
    reranked,
)

BODY_MAX_BYTES = 8 * 2**20
AT_ONCE_MAX = 1 << 14
"""Characters, and ids, of a request that are read on the event loop: 5 ms."""
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_JSON = "application/json"


class _Refused(Exception):
    def __init__(self, status: int, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


class Answer(NamedTuple):
    """`exits` is what the header says of them; empty for a model without."""

    model: str
    content: bytes
    exits: str = ""


class Engine:
    """`runners` by name. `api_key` None: whoever reaches the port may ask."""

    def __init__(
        self,
        runners: Sequence[Runner],
        most_waiting: int,
        at_once: int,
        api_key: str | None,
        thread: ThreadPoolExecutor | None = None,
    ) -> None:
        self.runners: Mapping[str, Runner] = {runner.model.name: runner for runner in runners}
        self.api_key = api_key
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "cascadia_engine_requests", "By model and status.", ["model", "status"], registry=self.registry
        )
        self.inputs = Counter(
            "cascadia_engine_inputs", "Texts that were read, by model.", ["model"], registry=self.registry
        )
        self.tokens = Counter(
            "cascadia_engine_tokens", "Tokens read, by model.", ["model"], registry=self.registry
        )
        self.seconds = Histogram(
            *("cascadia_engine_batch_seconds", "Of a pass, by model.", ["model"]),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.sizes = Histogram(
            *("cascadia_engine_batch_size", "Inputs of a pass, by model.", ["model"]),
            buckets=SIZES,
            registry=self.registry,
        )
        self.batches = Batches(most_waiting, at_once, self._batch, thread)
        exiting = {name: one.exits for name, one in self.runners.items() if one.exits is not None}
        if exiting:
            add_exits(self.registry, exiting)
        waiting = Gauge("cascadia_engine_waiting", "Inputs that wait.", registry=self.registry)
        waiting.set_function(lambda: self.batches.waiting)

    def _batch(self, model: str, size: int, seconds: float) -> None:
        self.sizes.labels(model).observe(size)
        self.seconds.labels(model).observe(seconds)

    def runner(self, name: str, task: Task) -> Runner:
        """Raises `_Refused` where there is no model of that name for the task; a name may be left out where one
        does."""
        able = [runner for runner in self.runners.values() if runner.model.task == task]
        if not name and len(able) == 1:
            return able[0]
        found = self.runners.get(name)
        if found is None:
            names = ", ".join(self.runners)
            raise _Refused(
                404, "model_not_found", f"There is no model {name[:100]!r}; there are {names}.", "model"
            )
        if found not in able:
            raise _Refused(400, "wrong_task", f"{name} is no model for {task}.", "model")
        return found

    async def forward(
        self, runner: Runner, asked: ClassifyBody | RerankBody, *, declines: bool = False
    ) -> Forwarded:
        inputs, truncate = asked.inputs, asked.truncate(runner.model)
        try:
            if sum(map(len, inputs)) > AT_ONCE_MAX:
                # Meanwhile others are answered: a million characters take seconds.
                ids = await asyncio.to_thread(runner.ids, inputs, truncate=truncate)
            else:
                ids = runner.ids(inputs, truncate=truncate)
        except BadText as error:
            raise bad_text(error, asked) from None
        found = await self.batches.forward(runner, ids, declines=declines)
        self.inputs.labels(runner.model.name).inc(len(inputs))
        self.tokens.labels(runner.model.name).inc(int(found.tokens.sum()))
        return found

    async def classify(self, body: bytes, declines: bool) -> Answer:
        asked = read_classify(body)
        runner = self.runner(asked.model, "classify")
        found = await self.forward(runner, asked, declines=declines)
        body = classified(runner.model, found, exits_used(runner, found))
        return Answer(runner.model.name, body, exits_told(runner, found))

    async def rerank(self, body: bytes, _: bool) -> Answer:
        asked = read_rerank(body)
        runner = self.runner(asked.model, "rerank")
        found = await self.forward(runner, asked)
        return Answer(runner.model.name, reranked(runner.model, asked, found))

    async def answered(self, request: Request, work: Callable[[bytes, bool], Awaitable[Answer]]) -> Response:
        """Serves one POST, whatever comes of it."""
        model = ""
        try:
            declines = request.headers.get(EXIT_HEADER, "") == "off"
            model, content, left = await work(await self._body(request), declines)
            response = Response(content, media_type=_JSON, headers={EXIT_HEADER: left} if left else None)
        except BadRequest as error:
            response = _error(400, "invalid_request", str(error), error.param)
        except _Refused as error:
            response = _error(error.status, error.code, str(error), error.param)
        except Busy:
            response = _error(429, "overloaded", "Too many inputs wait for a pass.")
            response.headers["retry-after"] = "1"
        self.requests.labels(model, str(response.status_code)).inc()
        return response

    async def _body(self, request: Request) -> bytes:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.api_key is not None and not hmac.compare_digest(given.encode(), self.api_key.encode()):
            raise _Refused(401, "unauthorized", "The key is missing or wrong.")
        length = request.headers.get("content-length", "")
        if not length.isdigit() or int(length) > BODY_MAX_BYTES:
            raise _Refused(413, "body_too_large", f"Send at most {BODY_MAX_BYTES:,} bytes, and say how many.")
        return await request.body()


def application(
    runners: Sequence[Runner],
    *,
    most_waiting: int = 4096,
    at_once: int = 32,
    api_key: str | None = None,
    thread: ThreadPoolExecutor | None = None,
) -> FastAPI:
    """`thread`: of passes, where others compute on it too."""
    engine = Engine(runners, most_waiting, at_once, api_key, thread)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        engine.batches.start()
        yield
        await engine.batches.stop()
        for runner in runners:
            if runner.exits is not None:
                runner.exits.close()

    async def classify(request: Request) -> Response:
        return await engine.answered(request, engine.classify)

    async def rerank(request: Request) -> Response:
        return await engine.answered(request, engine.rerank)

    async def models(_: Request) -> Response:
        return _json({"object": "list", "data": [_listed(runner) for runner in engine.runners.values()]})

    async def health(_: Request) -> Response:
        return _json({"status": "ok"})

    async def version(_: Request) -> Response:
        return _json({"version": __version__})

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(engine.registry), media_type=CONTENT_TYPE_LATEST)

    posts = {
        "/v1/classify": classify,
        "/classify": classify,
        "/v1/rerank": rerank,
        "/rerank": rerank,
        "/v2/rerank": rerank,
    }
    gets = {
        "/v1/models": models,
        "/health": health,
        "/ready": health,
        "/version": version,
        "/metrics": metrics,
    }
    app = FastAPI(title="Cascadia engine", version=__version__, lifespan=lifespan, openapi_url=None)
    # Plain routes: what FastAPI looks at in a body costs more than the rest of a small request.
    for method, routes in (("POST", posts), ("GET", gets)):
        for path, work in routes.items():
            app.add_route(path, work, methods=[method])
    app.state.engine = engine
    return app


def _listed(runner: Runner) -> dict[str, Any]:
    model = runner.model
    return {
        "id": model.name,
        "object": "model",
        "owned_by": "cascadia",
        "max_model_len": model.tokens_max,
        "task": model.task,
        "labels": model.labels,
    }


def _json(document: object) -> Response:
    return Response(msgspec.json.encode(document), media_type=_JSON)


def _error(status: int, code: str, message: str, param: str | None = None) -> Response:
    kind = "invalid_request_error" if status < 429 else "overloaded"
    error = {"message": message, "type": kind, "param": param, "code": code}
    return Response(msgspec.json.encode({"error": error}), status, media_type=_JSON)

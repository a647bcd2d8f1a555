"""The judge's service as an application: POST /v1/score, /v1/scores; health, readiness, metrics, version."""

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import NamedTuple

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from cascadia import __version__
from cascadia.judge_service.batches import Batches, Busy, Judges
from cascadia.judge_service.exits import ExitingJudge, add_exits
from cascadia.judge_service.wire import CaseBody, ItemsBody, VerdictBody, VerdictsBody
from cascadia_judge.embedding import Case, Verdict
from cascadia_judge.errors import BadVerdict

BODY_MAX_BYTES = 8 * 2**20
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Beside(NamedTuple):
    """Things that a judge shares with others in its process: the thread that computes, and the metrics."""

    thread: ThreadPoolExecutor
    registry: CollectorRegistry


class Service:
    """`api_key` None: whoever reaches the port may ask."""

    def __init__(
        self,
        judge: Judges,
        most_waiting: int,
        at_once: int,
        api_key: str | None,
        beside: Beside | None = None,
    ) -> None:
        self.registry = CollectorRegistry() if beside is None else beside.registry
        self.requests = Counter("cascadia_judge_requests", "By status.", ["status"], registry=self.registry)
        self.verdicts = Counter("cascadia_judge_verdicts", "Verdicts given.", registry=self.registry)
        self.tokens = Counter("cascadia_judge_tokens", "Tokens read.", registry=self.registry)
        self.seconds = Histogram(
            "cascadia_judge_batch_seconds", "Of a batch.", buckets=SECONDS, registry=self.registry
        )
        self.sizes = Histogram(
            "cascadia_judge_batch_size", "Cases in a batch.", buckets=SIZES, registry=self.registry
        )
        self.batches = Batches(judge, most_waiting, at_once, self._batch, beside.thread if beside else None)
        waiting = Gauge("cascadia_judge_waiting", "Cases that wait.", registry=self.registry)
        waiting.set_function(lambda: self.batches.waiting)
        self.api_key = api_key
        if isinstance(judge, ExitingJudge):
            add_exits(self.registry, judge.exits)

    def _batch(self, size: int, seconds: float) -> None:
        self.sizes.observe(size)
        self.seconds.observe(seconds)

    async def judged(self, cases: list[Case]) -> list[Verdict]:
        verdicts = await self.batches.verdicts(cases)
        self.verdicts.inc(len(verdicts))
        self.tokens.inc(sum(verdict.tokens for verdict in verdicts))
        return verdicts

    def allowed(self, request: Request) -> bool:
        if self.api_key is None:
            return True
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(given.encode("utf-8"), self.api_key.encode("utf-8"))


def application(
    judge: Judges,
    *,
    most_waiting: int = 1024,
    at_once: int = 16,
    api_key: str | None = None,
    beside: Beside | None = None,
) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.batches.start()
        yield
        await service.batches.stop()
        if isinstance(judge, ExitingJudge):
            judge.exits.close()

    service = Service(judge, most_waiting, at_once, api_key, beside)
    app = FastAPI(title="Cascadia judge", version=__version__, lifespan=lifespan, redoc_url=None)

    @app.middleware("http")
    async def guarded(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        if request.method == "POST":
            length = request.headers.get("content-length", "")
            if not service.allowed(request):
                response: Response = _error(401, "unauthorized", "The key is missing or wrong.")
            elif not length.isdigit() or int(length) > BODY_MAX_BYTES:
                response = _error(
                    413, "body_too_large", f"Send at most {BODY_MAX_BYTES:,} bytes, and say how many."
                )
            else:
                response = await call(request)
            service.requests.labels(str(response.status_code)).inc()
            return response
        return await call(request)

    @app.exception_handler(BadVerdict)
    async def bad(_: Request, error: BadVerdict) -> JSONResponse:
        return _error(400, "cannot_judge", str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        return _error(400, "invalid_request", f"{where}: {first['msg']}" if where else str(first["msg"]))

    @app.exception_handler(Busy)
    async def busy(_: Request, __: Busy) -> JSONResponse:
        return _error(429, "overloaded", "Too many answers wait for a verdict.", {"retry-after": "1"})

    @app.post("/v1/score")
    async def score(body: CaseBody) -> VerdictBody:
        """The verdict on one answer, or what to expect of one."""
        (verdict,) = await service.judged([body.case()])
        return VerdictBody.of(verdict, judge.digest)

    @app.post("/v1/scores")
    async def scores(body: ItemsBody) -> VerdictsBody:
        """Verdicts on many, in order."""
        found = await service.judged([item.case() for item in body.items])
        return VerdictsBody(verdicts=[VerdictBody.of(verdict, judge.digest) for verdict in found])

    @app.get("/health")
    @app.get("/ready")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/version")
    async def version() -> dict[str, object]:
        """This release, and what the judge was trained on."""
        return {"version": __version__, "judge": judge.about, "wants_certainty": judge.wants_certainty}

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(service.registry), media_type=CONTENT_TYPE_LATEST)

    app.state.service = service
    return app


def _error(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    error = {
        "message": message,
        "type": "invalid_request_error" if status < 429 else "overloaded",
        "code": code,
    }
    return JSONResponse({"error": error}, status, headers)

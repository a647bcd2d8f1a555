"""Routes of a controller: whether it is alive, leads and gets on, its figures and its history."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from cascadia.clients.processes.ports import listen_as_told
from cascadia.controller.memory.history import Entry
from cascadia.controller.service.metrics import Figures


def routes(figures: Figures, entries: Callable[[], list[Entry]]) -> FastAPI:
    app = FastAPI(title="Cascadia controller", docs_url=None, redoc_url=None)

    @app.get("/health", summary="Alive; `leads`: it acts, and does not stand by.")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "leads": figures.leads, "doing": figures.doing}

    @app.get("/ready", summary="503 where it leads and its passes fail; `why` says how.")
    async def ready() -> JSONResponse:
        why = figures.trouble()
        told = {"ready": not why, "leads": figures.leads, "doing": figures.doing, "why": why}
        return JSONResponse(told, 503 if why else 200)

    @app.get("/metrics", summary="In Prometheus' text format.")
    async def metrics() -> Response:
        return Response(figures.text(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/history", summary="Of the one that leads, oldest first.")
    async def history(lines: int = 50) -> list[dict[str, Any]]:
        latest = entries()[-max(1, lines) :]
        return [{"at_s": e.at_s, "kind": e.kind, "what": e.what, **e.facts} for e in latest]

    return app


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals alone: whoever runs the server hears them."""
        yield


@contextlib.asynccontextmanager
async def serving(app: FastAPI, host: str, port: int) -> AsyncIterator[int]:
    """Serves while the block runs; yields the port, a free one for 0. Raises `BadInput` where nobody can listen
    there.
    """
    listening = listen_as_told(host, port)
    # A signal cancels all tasks at once, and a lifespan that is cancelled prints a traceback.
    config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False, server_header=False)
    server = _Server(config)
    with listening:
        task = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield int(listening.getsockname()[1])
        finally:
            server.should_exit = True
            await task

"""What a controller on a cluster answers: whether it is alive and leads, and its history."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI

from cascadia.clients.local_ports import listen
from cascadia.controller.kubernetes_lease import Lease
from cascadia.controller.kubernetes_state import KubernetesState
from cascadia.domain.errors import BadInput


def face(lease: Lease, state: KubernetesState) -> FastAPI:
    app = FastAPI(title="Cascadia controller", docs_url=None, redoc_url=None)

    @app.get("/health", summary="Alive; `leads`: it acts, and does not stand by.")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "leads": lease.held}

    @app.get("/history", summary="Of the one that leads, oldest first.")
    async def history(lines: int = 50) -> list[dict[str, Any]]:
        entries = state.entries()[-max(1, lines) :]
        return [{"at_s": e.at_s, "kind": e.kind, "what": e.what, **e.facts} for e in entries]

    return app


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Who runs it hears them."""
        yield


@contextlib.asynccontextmanager
async def serving(app: FastAPI, host: str, port: int) -> AsyncIterator[None]:
    """While the block runs. Raises `BadInput` where nobody can listen there."""
    try:
        listening = listen(host, port)
    except OSError as error:
        raise BadInput(
            "--port", f"cannot listen on {host}:{port} ({error.strerror})", "name another"
        ) from None
    server = _Server(uvicorn.Config(app, log_config=None, access_log=False, server_header=False))
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await task

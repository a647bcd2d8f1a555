"""Routes that FastAPI serves: models, health, metrics, version, and the description of the whole API."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from cascadia import __version__
from cascadia.router.observers.observers import Observers
from cascadia.router.openai.errors import ApiError
from cascadia.router.openai.openapi import completion_paths
from cascadia.router.openai.requests import APIS
from cascadia.router.replicas.replica import Replica
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import RouterSettings
from cascadia.router.telemetry.kept_figures import KeptFigures
from cascadia.router.telemetry.merge import merged
from cascadia.router.ui.routes import add_ui


class Reload(Protocol):
    """Outcome of reading the files again, for anyone to see."""

    @property
    def document(self) -> dict[str, Any]: ...


class Reloads(Protocol):
    @property
    def last(self) -> Reload | None: ...


class Peers(Protocol):
    """The other processes of this router, which is the one of this `number`."""

    @property
    def count(self) -> int: ...

    @property
    def number(self) -> int: ...

    async def ask(self, what: str, *, successor: bool = False) -> dict[int, bytes]: ...


class Public(Protocol):
    """Router as anyone may see it. `older`: requests under plans before this one."""

    @property
    def settings(self) -> RouterSettings: ...

    @property
    def stages(self) -> list[Stage]: ...

    @property
    def all_stages(self) -> list[Stage]: ...

    @property
    def aliases(self) -> Mapping[str, str]: ...

    @property
    def ready(self) -> bool: ...

    @property
    def draining(self) -> bool: ...

    @property
    def digest(self) -> str: ...

    @property
    def older(self) -> int: ...

    @property
    def departing(self) -> Iterable[Replica]: ...

    @property
    def figures(self) -> KeptFigures: ...

    @property
    def observers(self) -> Observers: ...

    @property
    def peers(self) -> Peers: ...

    @property
    def reloader(self) -> Reloads | None: ...


def public_routes(router: Public) -> FastAPI:
    """No pages that load scripts from elsewhere: `/openapi.json` is for the reader's own tools."""
    app = FastAPI(title="Cascadia router", version=__version__, docs_url=None, redoc_url=None)
    _add_state(app, router)
    _add_models(app, router)
    if router.observers.page is not None:
        add_ui(app, router.observers.page)
    app.add_exception_handler(HTTPException, _refuse)
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        described = describe()
        described["paths"] |= completion_paths()
        return described

    app.openapi = openapi  # type: ignore[method-assign]
    return app


def _add_state(app: FastAPI, router: Public) -> None:
    @app.get("/health", summary="Whether this process is alive.")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get(
        "/ready", summary="Whether a request would be served.", responses={503: {"description": "Not now."}}
    )
    async def ready() -> JSONResponse:
        stages = {
            stage.name: {
                "ready": stage.ready,
                "replicas": {
                    r.name: {
                        "state": r.state,
                        "breaker": "closed" if r.breaker.closed else "open",
                        "running": r.running,
                    }
                    for r in stage.replicas
                },
                "waiting": len(stage.wait_queue),
            }
            for stage in router.all_stages
        }
        document = {
            "ready": router.ready,
            "draining": router.draining,
            "plan": router.digest,
            "revision": router.settings.revision,
            "stages": stages,
            "leaving": {replica.name: replica.running for replica in router.departing},
            "older": router.older,
        }
        if router.reloader is not None and router.reloader.last is not None:
            document["reload"] = router.reloader.last.document
        return JSONResponse(document, 200 if router.ready else 503)

    @app.get("/version", summary="Of the router.")
    async def version() -> dict[str, str]:
        return {"version": __version__}

    @app.get("/metrics", summary="For Prometheus.", response_class=Response)
    async def metrics() -> Response:
        told = await router.figures.now()
        if router.peers.count > 1:
            told = await asyncio.to_thread(
                _of_all, router, told, await router.peers.ask("metrics", successor=True)
            )
        return Response(told, media_type=CONTENT_TYPE_LATEST)


def _of_all(router: Public, own: bytes, answers: dict[int, bytes]) -> bytes:
    """Figures of this process, of those that answered, and what is kept of others."""
    texts, names, number = {}, {router.figures.name}, router.peers.number
    for other, answer in answers.items():
        name, _, texts[other] = answer.partition(b"\n")
        names.add(name.decode())
    kept, stale = router.figures.others(names)
    if number in texts:
        # Its successor has its number.
        return merged(texts, [*kept, own], stale)
    return merged(texts | {number: own}, kept, stale)


def _model(name: str, max_model_len: int | None) -> dict[str, Any]:
    """As vLLM describes one: clients cut what they send by `max_model_len`."""
    found: dict[str, Any] = {"id": name, "object": "model", "created": 0, "owned_by": "cascadia"}
    return found if max_model_len is None else found | {"max_model_len": max_model_len}


def _add_models(app: FastAPI, router: Public) -> None:
    def models() -> list[dict[str, Any]]:
        groups = [group.name for group in router.settings.groups if group.policies is not None]
        own = {stage.name: stage.settings.max_model_len for stage in router.stages}
        # What is too long for one stage is asked of a larger one.
        longest = None if None in own.values() else max(filter(None, own.values()), default=None)
        lengths = dict.fromkeys([router.settings.cascade, *groups], longest) | own
        return [_model(name, max_model_len) for name, max_model_len in lengths.items()]

    @app.get("/v1/models", summary="The cascade and its stages.")
    async def list_models() -> dict[str, Any]:
        return {"object": "list", "data": models()}

    @app.get(
        "/v1/models/{model:path}",
        summary="One of them.",
        responses={404: {"description": "None of that name."}},
    )
    async def one_model(model: str) -> JSONResponse:
        # What was served once still answers (`aliases`), and says who does, as vLLM does of adapters.
        stands_in = router.aliases.get(model)
        for entry in models():
            if entry["id"] == (stands_in or model):
                return JSONResponse(entry if stands_in is None else entry | {"id": model, "root": stands_in})
        error = ApiError(
            404, "model_not_found", f"The model {model[:100]!r} is not served here.", param="model"
        )
        return JSONResponse(error.document, 404)


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path[:100]
    known = path in APIS
    if error.status_code == 405 or known:
        wrong = ApiError(405, "method_not_allowed", f"{request.method} is not for {path}.")
        allowed = "POST" if known else (error.headers or {}).get("allow", "GET")
        return JSONResponse(wrong.document, 405, headers={"allow": allowed})
    wrong = ApiError(error.status_code, "unknown_url", f"Nothing is served at {path}.")
    return JSONResponse(wrong.document, error.status_code)

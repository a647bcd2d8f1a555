"""`/admin/`: what is in force, and how to change it while requests run.

Every call needs a key with the scope `admin` and leaves a line in the log: who, what, and what came of it. Nothing here
takes an address: those come from files only.
"""

from typing import Any, Protocol

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from cascadia import __version__
from cascadia.domain.errors import BadInput
from cascadia.router.access.access import Access
from cascadia.router.access.guard import authorization_of, refuse
from cascadia.router.admin.broadcast import Operator
from cascadia.router.admin.commands import Refused
from cascadia.router.http.asgi import Application, Receive, Scope, Send
from cascadia.router.openai.errors import ApiError
from cascadia.router.telemetry.request_log import Journal

MAX_BODY_BYTES = 32 * 2**20


class Administered(Protocol):
    """A router with its operator; `events` gets a line of each call."""

    @property
    def operator(self) -> Operator: ...

    @property
    def access(self) -> Access | None: ...

    @property
    def events(self) -> Journal: ...


def admin_routes(router: Administered) -> Application:
    """The application, behind its key and its audit."""
    app = FastAPI(title="Cascadia admin", version=__version__, docs_url=None, redoc_url=None)
    _add_state(app, router.operator)
    _add_replicas(app, router.operator)
    _add_spend(app, router)
    app.add_exception_handler(BadInput, _bad_input)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(HTTPException, _unknown)
    app.add_exception_handler(RequestValidationError, _invalid)

    async def audited(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or router.access is None:
            return
        line: dict[str, Any] = {"event": "admin", "method": scope["method"], "path": scope["path"][:200]}
        line["client"] = (scope.get("client") or ("",))[0]

        async def noting(message: Any) -> None:
            if message["type"] == "http.response.start":
                line["status"] = message["status"]
            await send(message)

        try:
            line["key"] = router.access.caller(authorization_of(scope), "admin").key.name
            await app(scope, receive, noting)
        except ApiError as error:
            await refuse(error, scope, noting)
        finally:
            router.events.line(line)

    return audited


def _add_state(app: FastAPI, operator: Operator) -> None:
    @app.get("/admin/state", summary="Plan, thresholds, stages and replicas.")
    async def get_state() -> dict[str, Any]:
        return await operator.state()

    @app.put("/admin/thresholds", summary="Of some or all stages; others stay as they are.")
    async def set_thresholds(request: Request) -> dict[str, Any]:
        await operator.thresholds(await _body(request))
        return await operator.state()

    @app.put("/admin/gear", summary="Pin one whatever the load; null has the load decide again.")
    async def set_gear(request: Request) -> dict[str, Any]:
        await operator.gear(await _body(request))
        return await operator.state()

    @app.put("/admin/plan", summary="A plan.json; addresses stay those of the files.")
    async def set_plan(request: Request) -> dict[str, Any]:
        await operator.plan(await _body(request))
        return await operator.state()

    @app.post("/admin/reload", summary="Read the files again, and undo what was put.")
    async def reload() -> JSONResponse:
        document = await operator.reload()
        return JSONResponse(document, 422 if document["outcome"] == "refused" else 200)


def _add_replicas(app: FastAPI, operator: Operator) -> None:
    @app.post("/admin/replicas/{name:path}/drain", summary="Nothing new for it; waits for what it has.")
    async def begin_drain(name: str, wait_s: float = 0.0, force: bool = False) -> dict[str, Any]:
        return await operator.drain(name, wait_s=wait_s, force=force)

    @app.post("/admin/replicas/{name:path}/undrain", summary="Back to work.")
    async def end_drain(name: str) -> dict[str, Any]:
        return await operator.undrain(name)


def _add_spend(app: FastAPI, router: Administered) -> None:
    @app.get("/admin/spend", summary="Dollars by key and stage this month, and budgets.")
    async def get_spend() -> dict[str, Any]:
        return {"keys": [] if router.access is None else router.access.spent()}


async def _body(request: Request) -> bytes:
    """Raises `Refused` for one that is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise Refused(413, "body_too_large", f"The body is larger than {MAX_BODY_BYTES:,} bytes.")
    return body


async def _bad_input(request: Request, error: Exception) -> Response:  # noqa: ARG001 (starlette's signature)
    return JSONResponse(ApiError(422, "bad_input", str(error)).document, 422)


async def _invalid(request: Request, error: Exception) -> Response:  # noqa: ARG001 (starlette's signature)
    assert isinstance(error, RequestValidationError)
    named = ", ".join(str(found["loc"][-1]) for found in error.errors())
    return JSONResponse(ApiError(422, "bad_input", f"Not understood: {named}.").document, 422)


async def _refused(request: Request, error: Exception) -> Response:  # noqa: ARG001 (starlette's signature)
    assert isinstance(error, Refused)
    return JSONResponse(ApiError(error.status, error.code, error.message).document, error.status)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path[:100]} is not of this API."
    return JSONResponse(ApiError(error.status_code, "unknown_url", message).document, error.status_code)

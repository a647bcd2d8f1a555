"""The page as an application: its files, the plans as JSON, and what they can be downloaded as.

It is meant for the person at this machine: a request under another host's name, or from another site's page, is
refused, so that no page of the web can have plans made or read them.
"""

import io
import json
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from cascadia import __version__
from cascadia.domain.errors import BadInput
from cascadia.router.ui.page_files import HEADERS, add_file
from cascadia.whatif.asked import MOST_BYTES, Asked, read_asked
from cascadia.whatif.plans import AtWork, Entry, Plans

OURS = "cascadia.whatif"
ZIP = "plan.zip"
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; sandbox"
)
"""A report brings its own style and script; in a sandbox they reach nothing of this page."""
KINDS = {
    ".json": "application/json",
    ".html": "text/html; charset=utf-8",
    ".yaml": "text/plain; charset=utf-8",
}


def application(plans: Plans, spec: Path, *, hosts: Collection[str], files: Collection[str]) -> FastAPI:
    """`hosts` are the names under which the page may be asked for; `files` what a plan's folder has to offer."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        plans.ask(Asked())
        yield
        await plans.stop()

    app = FastAPI(title="Cascadia", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
                  openapi_url=None)  # fmt: skip
    for path, name in {"/": "whatif.html", "/whatif.js": "whatif.js", "/whatif.css": "whatif.css"}.items():
        add_file(app, path, name, OURS)
    for name in ("kit.js", "page.css", "icon.svg"):
        add_file(app, f"/{name}", name)

    @app.middleware("http")
    async def at_this_machine(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        if (why := _stranger(request, hosts)) is not None:
            return _error(403, why)
        return await call(request)

    @app.get("/plans")
    async def listed() -> Response:
        """Plans that were asked for, and how far each is."""
        now_s = plans.clock()
        lines = [entry.line(now_s, plans.better(entry)) for entry in plans.entries.values()]
        about = {"spec": spec.name, "version": __version__, "sliders": plans.sliders}
        return _json({**about, "plans": lines})

    @app.post("/plans")
    async def ask(request: Request) -> Response:
        """Begins a plan, or names the one that was made of the same."""
        body = await request.body()
        if len(body) > MOST_BYTES:
            return _error(413, f"send at most {MOST_BYTES:,} bytes")
        try:
            entry = plans.ask(read_asked(body))
        except BadInput as error:
            return _error(400, str(error))
        except AtWork as error:
            return _error(409, str(error))
        return _json({"number": entry.number}, 202)

    @app.post("/stop")
    async def stop() -> Response:
        """Ends the plan that is being made."""
        await plans.stop()
        return _json({})

    @app.get("/plans/{number}")
    async def told(number: int) -> Response:
        """A plan, as its process told it."""
        entry = plans.entries.get(number)
        if entry is None or entry.state != "ready":
            return _error(404, f"plan {number} is not there")
        return _json(entry.told)

    @app.get("/plans/{number}/{name}")
    async def file(number: int, name: str) -> Response:
        """A file of a plan; `plan.zip` has all of them."""
        entry = plans.entries.get(number)
        if entry is None or entry.state != "ready":
            return _error(404, f"plan {number} is not there")
        if name == ZIP:
            return _download(_zipped(entry, files), f"plan-{number}.zip", "application/zip")
        if name not in files or not (entry.folder / name).is_file():
            return _error(404, f"plan {number} has no {name}")
        content, kind = (entry.folder / name).read_bytes(), KINDS[Path(name).suffix]
        if name.endswith(".html"):
            return Response(
                content, headers={**HEADERS, "content-security-policy": REPORT_POLICY}, media_type=kind
            )
        return _download(content, name, kind)

    return app


def _stranger(request: Request, hosts: Collection[str]) -> str | None:
    """Tells why the request is none of the page's own; None where it is."""
    host = request.headers.get("host", "").rpartition(":")[0] or request.headers.get("host", "")
    if host not in hosts:
        return f"this page is at {', '.join(sorted(hosts))} only"
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        return "another site's page may not ask"
    if request.method == "POST" and request.headers.get("content-type") != "application/json":
        return "send content-type: application/json"
    return None


def _zipped(entry: Entry, files: Collection[str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in files:
            if (entry.folder / name).is_file():
                archive.write(entry.folder / name, name)
    return buffer.getvalue()


def _download(content: bytes, name: str, kind: str) -> Response:
    told = {**HEADERS, "content-disposition": f'attachment; filename="{name}"'}
    return Response(content, headers=told, media_type=kind)


def _json(document: object, status: int = 200) -> Response:
    return Response(
        json.dumps(document), status, {**HEADERS, "cache-control": "no-store"}, media_type="application/json"
    )


def _error(status: int, line: str) -> Response:
    return JSONResponse({"error": line}, status, headers=HEADERS)

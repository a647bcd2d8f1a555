"""The page at /ui: a few files of our own and one JSON document, which it asks for every two seconds.

Nothing is loaded from elsewhere, no script stands in the page itself, and the browser is told to allow neither.
"""

from importlib import resources

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse

from cascadia.router.openai.errors import ApiError
from cascadia.router.ui.state import WINDOWS, Page

FILES = {
    "/ui": ("page.html", "text/html; charset=utf-8"),
    "/ui/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/ui/icon.svg": ("icon.svg", "image/svg+xml"),
    "/ui/page.css": ("page.css", "text/css; charset=utf-8"),
}
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def add_ui(app: FastAPI, page: Page) -> None:
    for path, (name, kind) in FILES.items():
        _add_file(app, path, name, kind)

    @app.get("/ui/state", include_in_schema=False)
    async def state(window: str = "1m") -> JSONResponse:
        if window not in WINDOWS:
            known = ", ".join(WINDOWS)
            wrong = ApiError(400, "invalid_value", f"The window is one of {known}.", param="window")
            return JSONResponse(wrong.document, 400)
        return JSONResponse(await page.state(window), headers=HEADERS | {"cache-control": "no-store"})


def _add_file(app: FastAPI, path: str, name: str, kind: str) -> None:
    content = (resources.files("cascadia.router") / "page" / name).read_bytes()

    @app.get(path, include_in_schema=False)
    async def file() -> Response:
        return Response(content, media_type=kind, headers=HEADERS)

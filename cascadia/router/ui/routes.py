"""The page at /ui: a few files of our own and one JSON document, which it asks for every two seconds.

Nothing is loaded from elsewhere, no script stands in the page itself, and the browser is told to allow neither.
"""

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from cascadia.router.openai.errors import ApiError
from cascadia.router.ui.page_files import HEADERS, add_file
from cascadia.router.ui.state import WINDOWS, Page

FILES = {
    "/ui": "page.html",
    "/ui/kit.js": "kit.js",
    "/ui/page.js": "page.js",
    "/ui/playground.js": "playground.js",
    "/ui/icon.svg": "icon.svg",
    "/ui/page.css": "page.css",
}


def add_ui(app: FastAPI, page: Page) -> None:
    for path, name in FILES.items():
        add_file(app, path, name)

    @app.get("/ui/state", include_in_schema=False)
    async def state(window: str = "1m") -> JSONResponse:
        if window not in WINDOWS:
            known = ", ".join(WINDOWS)
            wrong = ApiError(400, "invalid_value", f"The window is one of {known}.", param="window")
            return JSONResponse(wrong.document, 400)
        return JSONResponse(await page.state(window), headers=HEADERS | {"cache-control": "no-store"})

    @app.get("/ui/evaluations", include_in_schema=False)
    async def evaluations() -> JSONResponse:
        return JSONResponse(await page.evaluations(), headers=HEADERS | {"cache-control": "no-store"})

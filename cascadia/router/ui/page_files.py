"""Files of a page of ours, and what a browser is told with them: no script stands in the page itself, and nothing is
loaded from elsewhere.
"""

from importlib import resources

from fastapi import FastAPI, Response

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


def add_file(app: FastAPI, path: str, name: str, package: str = "cascadia.router") -> None:
    """Serves the file `name` of the package's folder `page` at `path`."""
    content = (resources.files(package) / "page" / name).read_bytes()
    kind = KINDS[name.rpartition(".")[2]] + ("" if name.endswith("svg") else "; charset=utf-8")

    @app.get(path, include_in_schema=False)
    async def file() -> Response:
        return Response(content, media_type=kind, headers=HEADERS)

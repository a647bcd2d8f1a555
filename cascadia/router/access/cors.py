"""CORS: pages of other origins that may ask the models from a browser
(https://fetch.spec.whatwg.org/#http-cors-protocol).

That is of `/v1/` alone: no page elsewhere is let at metrics, the page or the admin API, whatever key a browser holds. A
preflight has no key, and tells nothing but what the settings allow.
"""

from collections.abc import Iterable

from cascadia.router.http.asgi import OPEN_TO_PAGES, Scope, Send
from cascadia.router.http.wire import Headers, header_lines
from cascadia.router.settings.model import CorsSettings

ANY = "*"
EXPOSED = ", ".join(
    (
        *(
            f"x-cascadia-{name}"
            for name in ("stage", "score", "attempts", "steps", "stopped", "alias", "usd")
        ),
        *("x-request-id", "retry-after"),
        *(
            f"x-ratelimit-{what}-{of}"
            for what in ("limit", "remaining", "reset")
            for of in ("requests", "tokens")
        ),
    )
).encode("ascii")
"""Headers of answers that a page may read; a browser hides all but a few."""


def lines_for(cors: CorsSettings, origin: bytes) -> bytes:
    """Header lines, whole, of an answer to a page of `origin`."""
    headers = _origin(cors, origin)
    return header_lines(
        [*headers, (b"access-control-expose-headers", EXPOSED)] if len(headers) > 1 else headers
    )


def is_preflight(scope: Scope) -> bool:
    """Tells whether a browser asks, on behalf of a page, what it may send to a model."""
    names = {name for name, _ in scope["headers"]}
    asks = {b"origin", b"access-control-request-method"} <= names
    return bool(asks and scope["method"] == "OPTIONS" and scope["raw_path"].startswith(OPEN_TO_PAGES))


async def answer_preflight(cors: CorsSettings, scope: Scope, send: Send) -> None:
    """Answers with what is allowed of what was asked for. The request adds the origin itself."""
    given = dict(scope["headers"])
    headers: Headers = []
    if _allows(cors, given[b"origin"]):
        wanted = given.get(b"access-control-request-headers", b"").decode("latin-1").lower().split(",")
        names = [name.strip() for name in wanted if _is_among(cors.allow_headers, name.strip())]
        methods = ", ".join(cors.allow_methods).encode("ascii")
        headers.append((b"access-control-allow-methods", methods))
        if names:
            headers.append((b"access-control-allow-headers", ", ".join(names).encode("latin-1")))
        headers.append((b"access-control-max-age", b"%d" % cors.max_age_s))
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _origin(cors: CorsSettings, origin: bytes) -> Headers:
    """Caches are told that an answer to one origin is not another's, also where it is refused."""
    vary: Headers = [] if cors.allow_origins == (ANY,) else [(b"vary", b"origin")]
    if not _allows(cors, origin):
        return vary
    # With credentials the settings name each origin, so that this is never `*`.
    said = ANY.encode("ascii") if cors.allow_origins == (ANY,) else origin
    headers: Headers = [*vary, (b"access-control-allow-origin", said)]
    if cors.allow_credentials:
        headers.append((b"access-control-allow-credentials", b"true"))
    return headers


def _allows(cors: CorsSettings, origin: bytes) -> bool:
    return cors.allow_origins == (ANY,) or origin.decode("latin-1") in cors.allow_origins


def _is_among(patterns: Iterable[str], name: str) -> bool:
    """A pattern that ends in `*` stands for all names that begin so."""
    return any(name.startswith(each[:-1]) if each.endswith(ANY) else name == each for each in patterns)

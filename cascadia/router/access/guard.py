"""Guard of the paths that FastAPI serves. What is not named here needs a key that may ask models."""

from cascadia.router.access.access import Access
from cascadia.router.http.asgi import Scope, Send
from cascadia.router.openai.errors import ApiError

OPEN = frozenset({"/health", "/ready", "/version", "/openapi.json"})
"""For load balancers and probes: they tell states and names of stages, and no addresses."""
_CHALLENGE = {"read": b'Basic realm="cascadia"', "ask": b"Bearer"}


def refusal(access: Access | None, scope: Scope) -> ApiError | None:
    """Refusal of a request for one of these paths; None where it may pass."""
    path = scope["path"]
    if access is None or path in OPEN or path in access.open_paths:
        return None
    authorization = authorization_of(scope)
    try:
        if reads(path):
            access.reader(authorization, "metrics")
        else:
            access.caller(authorization, "inference")
    except ApiError as error:
        return error
    return None


def reads(path: str) -> bool:
    """Tells whether it is of those that a browser or Prometheus looks at: there a password may be the key."""
    return path == "/metrics" or path == "/ui" or path.startswith("/ui/")


def authorization_of(scope: Scope) -> bytes:
    """The header's value; that of two is none."""
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    return bytes(found[0]) if len(found) == 1 else b""


async def refuse(error: ApiError, scope: Scope, send: Send) -> None:
    """Answers with `error`."""
    body = error.body
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if error.status == 401:
        headers.append((b"www-authenticate", _CHALLENGE["read" if reads(scope["path"]) else "ask"]))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

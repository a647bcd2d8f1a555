"""The router: an OpenAI-compatible service in front of the stages of a cascade.

`cascadia serve` runs it as a process; `uvicorn --factory cascadia.router:app` as an ASGI application.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cascadia.router.server.asgi_app import RouterApp


def app() -> "RouterApp":
    """An ASGI application that serves the router.yaml that `CASCADIA_ROUTER_CONFIG` names."""
    from cascadia.router.server import asgi_app

    return asgi_app.app()

"""The OpenAI SDK as we ask engines and judges through it: at one address, with one key or none, and nothing of its
environment's."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import httpx
from openai import AsyncOpenAI, Omit

from cascadia.clients.engines.proxies import proxy_of
from cascadia.domain.errors import BadInput
from cascadia.files.addresses import http_url

CONNECT_S = 10.0
_NO_KEY = "none"
_FROM_ENVIRONMENT = ("OpenAI-Organization", "OpenAI-Project")
"""What the SDK would tell any engine of the user's account at OpenAI."""

Hook = Callable[[httpx.Request], Awaitable[None]]


def sdk(
    base_url: str,
    api_key: str | None,
    *,
    timeout_s: float,
    tries: int,
    connections: int | None,
    proxied: bool = True,
    transport: httpx.AsyncBaseTransport | None = None,
    on_request: Hook | None = None,
) -> AsyncOpenAI:
    """A client that makes at most `tries` attempts, each waiting up to `timeout_s` for the engine's next bytes.

    A proxy of the environment is asked where `proxied` and where the router would ask it (`proxy_of`). Raises
    `BadInput` where `base_url` is no address, or the proxy's is none.
    """
    try:
        httpx.URL(base_url)
    except (httpx.InvalidURL, ValueError):
        raise BadInput(base_url, "is no address", "write e.g. http://127.0.0.1:8000/v1") from None
    return AsyncOpenAI(
        # Without one, the SDK would send the environment's OPENAI_API_KEY to whatever engine this is.
        api_key=api_key or _NO_KEY,
        base_url=base_url,
        timeout=cast(Any, httpx.Timeout(timeout_s, connect=CONNECT_S)),
        max_retries=tries - 1,
        default_headers=cast(dict[str, str], dict.fromkeys(_FROM_ENVIRONMENT, Omit())),
        # Newer SDKs make their own of httpx2 and take this one as well; older ones know no other.
        http_client=cast(Any, httpx.AsyncClient)(
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            # Of the environment nothing but the certificates: httpx would not begin beside a SOCKS proxy.
            trust_env=False,
            verify=httpx.create_ssl_context(),
            proxy=_proxy(base_url) if proxied else None,
            transport=transport,
            event_hooks={"request": [_unkeyed, *([on_request] if on_request else [])]},
        ),
    )


def _proxy(base_url: str) -> httpx.Proxy | None:
    found = proxy_of(base_url)
    if found is None:
        return None
    name, _, value = found.header.decode().strip().partition(": ")
    return httpx.Proxy(http_url(found.host, found.port), headers={name: value} if name else None)


async def _unkeyed(request: httpx.Request) -> None:
    """An engine without a key is sent none: the SDK insists on one."""
    if request.headers.get("authorization") == f"Bearer {_NO_KEY}":
        del request.headers["authorization"]

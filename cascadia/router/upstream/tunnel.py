"""Tunnel through a proxy to an API that speaks TLS: `CONNECT`, RFC 9110, section 9.3.6."""

import asyncio

from cascadia.clients.engines.proxies import Proxy
from cascadia.files.addresses import authority
from cascadia.router.upstream.errors import UpstreamError

_MOST_BYTES = 16 * 1024
_OPENED = (b"HTTP/1.1 2", b"HTTP/1.0 2")


class _Tunnel(asyncio.Protocol):
    """Connection to a proxy until its answer is here: `opened` is done then, or has an `UpstreamError`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.opened: asyncio.Future[None] = loop.create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        if b"\r\n\r\n" in self._head:
            good = self._head.startswith(_OPENED)
            self._end(None if good else UpstreamError("proxy", "the proxy refuses"))
        elif len(self._head) > _MOST_BYTES:
            self._end(UpstreamError("proxy", "the proxy answers without end"))

    def connection_lost(self, _: Exception | None) -> None:
        self._end(UpstreamError("proxy", "the proxy ends the connection"))

    def _end(self, error: UpstreamError | None) -> None:
        if self.opened.done():
            return
        if error is None:
            self.opened.set_result(None)
        else:
            self.opened.set_exception(error)


async def tunnel(proxy: Proxy, host: str, port: int) -> asyncio.Transport:
    """A connection to `host` through `proxy`, on which nothing was said yet. Raises `UpstreamError` of kind `proxy`,
    and `OSError` where this process has no descriptor left."""
    loop = asyncio.get_running_loop()
    try:
        transport, protocol = await loop.create_connection(lambda: _Tunnel(loop), proxy.host, proxy.port)
    except (ConnectionError, UnicodeError) as error:
        raise UpstreamError("proxy", type(error).__name__) from None
    target = authority(host, port)
    transport.write(
        f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n".encode("ascii") + proxy.header + b"\r\n"
    )
    try:
        await protocol.opened
    except BaseException:
        transport.abort()
        raise
    return transport

"""Proxies on the way to an API: those that `HTTPS_PROXY` and `NO_PROXY` name, as other programs of a host read them."""

from base64 import b64encode
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from cascadia.domain.errors import BadInput

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PORT = 3128


@dataclass(frozen=True, slots=True)
class Proxy:
    """`header`: the line that tells it who asks; empty where it need not know."""

    host: str
    port: int
    header: bytes = b""


def proxy_of(url: str) -> Proxy | None:
    """The proxy that `url` is reached through. None for plain HTTP, which engines of one's own speak, on this machine,
    or where there is none. Raises `BadInput` where it is another than an `http://` one."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https" or host in _LOOPBACK:
        return None
    import urllib.request  # 20 ms, which few pay

    named = urllib.request.getproxies_environment()
    told = named.get("https") or named.get("all")
    if not told or urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    try:
        return _read(told if "://" in told else f"http://{told}")
    except ValueError:
        raise BadInput("HTTPS_PROXY", "is no address of an HTTP proxy", "write http://HOST:PORT") from None


def _read(address: str) -> Proxy:
    parts = urlsplit(address)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(address)
    header = b""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        header = b"proxy-authorization: Basic " + b64encode(pair.encode()) + b"\r\n"
    return Proxy(parts.hostname, parts.port or _PORT, header)

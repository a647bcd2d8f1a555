"""Addresses of APIs in specs and router files, as routers can ask them."""

import re
from urllib.parse import urlsplit

_PATH = re.compile(r"(/[\w.~-]+)*", re.ASCII)


def http_url(host: str, port: int) -> str:
    """The address of who listens at `host`: a name, or an address of either version.

    >>> http_url("::1", 8000)
    'http://[::1]:8000'
    """
    return f"http://{authority(host, port)}"


def authority(host: str, port: int) -> str:
    """Host and port as addresses and `Host` headers write them."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def api_root(url: str) -> str:
    """The address less trailing slashes and `/v1`. Raises ValueError with what is wrong with it.

    >>> api_root("https://host.example/api/v1/")
    'https://host.example/api'
    """
    root = url.rstrip("/").removesuffix("/v1")
    try:
        parts = urlsplit(root)
        port = parts.port
    except ValueError:
        raise ValueError(f"{url!r} is no address") from None
    known = parts.scheme in ("http", "https") and parts.hostname and port != 0
    if not known or not root.isascii() or re.search(r"\s", root):
        raise ValueError(f"{url!r} is no address")
    if parts.query or parts.fragment or parts.username or not _PATH.fullmatch(parts.path):
        raise ValueError(f"{url!r} has more than a host, a port and a path")
    return root

"""Addresses of APIs in specs and router files, as routers can ask them."""

import re
from urllib.parse import urlsplit

_PATH = re.compile(r"(/[\w.~-]+)*", re.ASCII)


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

"""Head of a request of the hot path, be it of one request or of all that come with the same."""

import re
from typing import Any

from msgspec import Struct

from cascadia.router.http.wire import Headers
from cascadia.router.openai.requests import Api

_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_OWN = b"x-cascadia-"
_READ = frozenset(
    (
        *(b"authorization", b"content-length", b"expect", b"traceparent", b"tracestate"),
        *(b"x-request-id", b"x-session-id", b"origin"),
    )
)


class Head(Struct):
    """`given` are the client's headers of the cascade, less `x-cascadia-`; `traces` those of its trace, in whole lines.

    `lasting`: the client would send another request on its connection; `chunked`: it can read a body of parts.
    """

    path: bytes
    api: Api
    lasting: bool
    chunked: bool
    expects: bool = False
    authorization: bytes = b""
    origin: bytes = b""
    request_id: bytes = b""
    traceparent: bytes = b""
    traces: bytes = b""
    given: dict[bytes, bytes] = {}
    caller: Any = None
    """Whom `authorization` was found to be: kept and checked by whoever looks that up."""

    @property
    def of_one(self) -> bool:
        """Tells whether something in it is of one request only, or is answered before the body has come."""
        return bool(self.request_id or self.traces or self.origin or self.expects or not self.lasting)


def head_of(
    path: bytes, api: Api, headers: Headers, *, lasting: bool, chunked: bool
) -> tuple[Head, int | None]:
    """And the length of the body, where the head says it."""
    head = Head(path, api, lasting, chunked)
    length: int | None = None
    states = b""
    for name, value in headers:
        if name not in _READ:
            if name.startswith(_OWN):
                head.given[name[len(_OWN) :]] = value
        elif name == b"content-length":
            length = int(value)
        elif name == b"authorization":
            # Of two nobody knows which is meant.
            head.authorization = b"twice" if head.authorization else value
        # It stands in our answer's head and in logs: another text could break out of either.
        elif name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            head.request_id = value
        elif name in (b"traceparent", b"tracestate") and value.isascii() and value.decode().isprintable():
            if name == b"traceparent":
                head.traceparent = value
            else:
                states += name + b": " + value + b"\r\n"
        elif name == b"expect":
            # An expectation of HTTP/1.0 is none (RFC 9110, 10.1.1).
            head.expects = chunked and value.lower() == b"100-continue"
        elif name == b"origin":
            head.origin = value
        elif name == b"x-session-id":
            head.given[b"session-id"] = value
    if head.traceparent:
        states += b"traceparent: " + head.traceparent + b"\r\n"
    head.traces = states
    return head, length

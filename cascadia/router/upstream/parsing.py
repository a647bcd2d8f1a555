"""An engine's bytes as the head and the body of an answer."""

from collections.abc import Callable

import httptools
from msgspec import Struct

from cascadia.clients.engines.seen_head import END, SeenHead, seen_head
from cascadia.router.upstream.errors import UpstreamError

HEAD_BYTES_MAX = 64 * 1024
_OK = 200


class Answer(Struct):
    """Answer of one exchange, as far as it is known. `headed`: its head is here; `complete`: nothing more will
    come of it.
    """

    status: int = 0
    content_type: bytes = b""
    retry_after: bytes = b""
    headed: bool = False
    framed: bool = False
    """Whether it says where it ends; another ends with its connection."""
    keep_alive: bool = True
    complete: bool = False
    error: UpstreamError | None = None
    body_at_s: float = 0.0
    """When its body began, in the loop's time."""
    head_bytes: int = 0


class AnswerParser:
    """Parser of one connection's answers. `answer` is the one that comes; `on_body` and `ended` are told of its
    parts and its end.
    """

    __slots__ = (
        "_between",
        "_content_type",
        "_due_bytes",
        "_ended",
        "_headed",
        "_parser",
        "_seen",
        "_trailer_bytes",
        "answer",
        "lines",
        "on_body",
    )

    def __init__(
        self, on_body: Callable[[bytes], None], headed: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        self.on_body = on_body
        self._headed = headed
        self._ended = ended
        self.answer = Answer()
        self._seen: SeenHead | None = None
        self._content_type = b""
        self._due_bytes: int | None = None
        """Of the answer that comes, those that have not yet; below 0: more came. None where its head does not say."""
        self._trailer_bytes = 0
        self.lines = 0
        """Of heads and trailers, since whoever feeds it set this to 0."""
        self._between = True
        """Whether the parser has taken whole messages, and nothing of another."""
        self._parser = httptools.HttpResponseParser(self)

    def at_once(self, data: bytes) -> bytes | None:
        """The body, where `data` is a whole answer with a head that came before; None where it must be fed."""
        if self._seen is None or not self._between:
            return None
        begins = self._seen.body_begins(data)
        if not begins or len(data) - begins != self._seen.length:
            return None
        answer = self.answer
        answer.status = _OK
        answer.content_type = self._content_type
        answer.headed = answer.framed = True
        return data[begins:]

    def feed(self, data: bytes) -> UpstreamError | None:
        """Parses data; returns None, or why nothing more is read."""
        answer = self.answer
        seen: SeenHead | None = None
        if self._between:
            self._between = False
            self._trailer_bytes = 0
            seen = seen_head(data)
            self._due_bytes = None if seen is None else seen.body_begins(data) + seen.length - len(data)
        elif self._due_bytes is not None:
            self._due_bytes -= len(data)
        if not answer.headed:
            answer.head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            # It may be behind a whole answer, which stands. Nobody asked to go on in another protocol.
            answer.keep_alive = False
            return UpstreamError("protocol")
        if not answer.headed and answer.head_bytes > HEAD_BYTES_MAX:
            return UpstreamError("protocol", "endless headers")
        if answer.complete:
            self._completed(data, seen)
        return None

    def _completed(self, data: bytes, seen: SeenHead | None) -> None:
        """`data` brought the end of an answer, and its head where that was `seen`: the next like it is not parsed."""
        answer, due_bytes = self.answer, self._due_bytes
        if due_bytes is None:
            # Were a part of another message here, it would have no end yet, or be a head that nobody asked for.
            self._between = answer.keep_alive and data.endswith(END)
        elif due_bytes < 0:
            # Nobody asked for what follows, and it must not become the answer to the next request.
            answer.keep_alive = False
        elif due_bytes == 0 and answer.keep_alive:
            self._between = True
            if seen is not None and answer.status == _OK and not answer.retry_after:
                self._seen, self._content_type = seen, answer.content_type

    def forget(self) -> None:
        """The parser holds what it tells: only a collection of garbage would end that."""
        del self._parser

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        answer = self.answer
        self.lines += 1
        if answer.headed:
            # What follows a chunked body is no head, and is bounded as one.
            self._trailer_bytes += len(name) + len(value) + 4
            if self._trailer_bytes > HEAD_BYTES_MAX:
                raise ValueError("endless trailers")
        elif name == b"content-type":
            # Which of its letters are capitals means nothing, but in its parameters (RFC 9110, 8.3.1).
            kind, separator, parameters = value.partition(b";")
            answer.content_type = kind.lower() + separator + parameters
        elif name == b"content-length" or (name == b"transfer-encoding" and b"chunked" in value.lower()):
            answer.framed = True
        elif name == b"retry-after":
            answer.retry_after = value

    def on_headers_complete(self) -> None:
        answer = self.answer
        if answer.complete:
            # Nobody asked for a second answer.
            answer.keep_alive = False
            return
        answer.status = self._parser.get_status_code()
        # An interim head (RFC 9110, 15.2): the answer's own is yet to come.
        if answer.status < _OK:
            return
        answer.keep_alive = self._parser.should_keep_alive()
        answer.headed = True
        self._headed()

    def on_message_complete(self) -> None:
        if self.answer.status >= _OK:
            self._ended()

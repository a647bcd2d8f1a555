"""Trailers behind an engine's chunked answer: passed over, and bounded as a head is."""

import pytest

from cascadia.router.upstream.parsing import HEAD_BYTES_MAX, Answer, AnswerParser

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(("count", "error"), [(0, None), (1000, None), (HEAD_BYTES_MAX, "protocol")])
def test_so_many_trailers_are_passed_over_and_no_more(count: int, error: str | None) -> None:
    parts: list[bytes] = []
    parser = AnswerParser(parts.append, lambda: None, lambda: setattr(parser.answer, "complete", True))
    for _ in range(2):
        parser.answer = Answer()
        assert parser.feed(HEAD) is None
        assert parser.feed(b"2\r\n{}\r\n") is None
        found = parser.feed(b"0\r\n" + b"a:b\r\n" * count + b"\r\n")
        assert (None if found is None else found.kind) == error
        if error is not None:
            break
        assert parser.answer.complete
        assert parser.answer.keep_alive
    assert b"".join(parts) in (b"{}", b"{}{}")

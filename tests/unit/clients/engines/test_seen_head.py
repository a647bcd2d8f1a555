import pytest

from cascadia.clients.engines.seen_head import seen_head

HEAD = b"POST /v1 HTTP/1.1\r\nHost: x\r\nContent-Length: %b\r\nAuthorization: Bearer a\r\n\r\n"


def test_a_head_is_known_again_by_all_but_its_length() -> None:
    data = HEAD % b"5" + b"hello"
    seen = seen_head(data)
    assert seen is not None
    assert seen.length == 5
    longer = HEAD % b"120" + b"x" * 120
    assert longer[seen.body_begins(longer) :] == b"x" * 120
    assert seen.length == 120
    assert seen.body_begins(HEAD % b"7") == len(HEAD % b"7")


@pytest.mark.parametrize(
    "other",
    [
        HEAD.replace(b"Bearer a", b"Bearer b") % b"5",
        HEAD.replace(b"Bearer a", b"Bearer aa") % b"5",
        HEAD.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n") % b"5",
        HEAD % b"",
        HEAD % b"-5",
        HEAD % b"+5",
        HEAD % b"5 5",
        HEAD % b"0x5",
        HEAD % b"1234567890",
        HEAD % "٥".encode(),
        (HEAD % b"5")[:-1],
        (HEAD % b"5")[:40],
        b"",
    ],
)
def test_another_head_or_one_that_is_cut_is_not_this_one(other: bytes) -> None:
    seen = seen_head(HEAD % b"5" + b"hello")
    assert seen is not None
    assert not seen.body_begins(other)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\nx-content-length: 5\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nhost: x\r\nx-note: content-length: 5\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1234567890\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n",
        # Where lines end in two ways, so may the head.
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\na: b\n\nhello\r\n\r\n",
    ],
)
def test_a_head_without_a_plain_length_is_not_kept(data: bytes) -> None:
    assert seen_head(data) is None


def test_the_length_is_the_header_s_own_and_not_one_like_it() -> None:
    data = b"POST / HTTP/1.1\r\nx-content-length: 7\r\ncontent-length: 5\r\n\r\nhello"
    seen = seen_head(data)
    assert seen is not None
    assert seen.length == 5
    assert not seen.body_begins(data.replace(b"x-content-length: 7", b"x-content-length: 8"))

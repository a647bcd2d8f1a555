"""The head of an HTTP/1.1 message as it came before: told by its bytes, it need not be parsed again.

Who sends many messages over a connection writes the same head each time, but for the length of the body. A head that
the parser has taken, and that comes again with no more than these digits changed, says the same again.
"""

import re

END = b"\r\n\r\n"
DIGITS_MAX = 9
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,%d})\r\n" % DIGITS_MAX, re.IGNORECASE)


class SeenHead:
    """`before` and `after` stand around the digits of the length, which was `length` when it last came."""

    __slots__ = ("_after", "_after_bytes", "_before", "_before_bytes", "_most_bytes", "length")

    def __init__(self, before: bytes, after: bytes, length: int) -> None:
        self._before = before
        self._before_bytes = len(before)
        self._after = after
        self._after_bytes = len(after)
        self._most_bytes = DIGITS_MAX + len(after)
        self.length = length

    def body_begins(self, data: bytes) -> int:
        """Offset at which the body begins that follows this head in `data`, and `length` is its own; 0 where
        the head is not this one, or not here whole.
        """
        if not data.startswith(self._before):
            return 0
        at = self._before_bytes
        end = data.find(self._after, at, at + self._most_bytes)
        digits = data[at:end]
        if end < 0 or not digits.isdigit():
            return 0
        self.length = int(digits)
        return end + self._after_bytes


def seen_head(data: bytes) -> SeenHead | None:
    """The head that `data` begins with, which a parser has taken; None where it is not here whole, or has no length
    that could be told apart from all else."""
    end = data.find(END)
    found = _LENGTH.search(data, 0, end + 2) if end > 0 else None
    # A line that ends in another way would have the body begin elsewhere.
    if found is None or data.count(b"\n", 0, end) != data.count(b"\r\n", 0, end):
        return None
    return SeenHead(data[: found.start(1)], data[found.end(1) : end + len(END)], int(found[1]))

"""Tokens that a stream that is passed on took: as its usage says, or one per event where it says nothing."""

import re

_TAIL_BYTES = 4096
# An answer's own text cannot look like this: there a quotation mark has a backslash in front.
_INPUT = re.compile(rb'"(?:prompt|input)_tokens"\s*:\s*(\d{1,12})')
_OUTPUT = re.compile(rb'"(?:completion|output)_tokens"\s*:\s*(\d{1,12})')


class StreamUsage:
    __slots__ = ("_events", "_tail")

    def __init__(self) -> None:
        self._events = 0
        self._tail = bytearray()

    def add(self, part: bytes) -> None:
        self._events += part.count(b"data:")
        self._tail += part
        if len(self._tail) > 2 * _TAIL_BYTES:
            del self._tail[:-_TAIL_BYTES]

    def tokens(self, prompt_tokens: int) -> int:
        """Tokens in and out together; `prompt_tokens` is an estimate for a stream that does not say."""
        taken, written = _INPUT.findall(self._tail), _OUTPUT.findall(self._tail)
        if taken and written:
            return int(taken[-1]) + int(written[-1])
        return prompt_tokens + self._events

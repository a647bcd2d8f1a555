"""Tokens that an answer took whose engine does not say it, or whose stream is passed on: by its events and texts."""

import re

from cascadia.router.openai.answers import Usage, tells_usage, usage_of_event
from cascadia.router.openai.bounded import LONG_BYTES, MOST_SAID, SMALL_BYTES
from cascadia.router.openai.texts import prompt_tokens_of

_TAIL_BYTES = 4096
# An answer's own text cannot look like this: there a quotation mark has a backslash in front.
_INPUT = re.compile(rb'"(?:prompt|input)_tokens"\s*:\s*(\d{1,12})')
_TEXT = re.compile(
    rb'"(?:content|text|delta|reasoning|reasoning_content|arguments)"\s*:\s*"([^"\\]*(?:\\.[^"\\]*)*)"'
)
_BYTES_A_TOKEN = 4
_OUTPUT = re.compile(rb'"(?:completion|output)_tokens"\s*:\s*(\d{1,12})')


def estimated(request: bytes, text_bytes: int) -> Usage:
    """Tokens of an answer with so many bytes of text whose engine told none: nobody answers for nothing."""
    return Usage(max(1, prompt_tokens_of(request)), text_bytes // _BYTES_A_TOKEN)


def text_bytes(body: bytes | bytearray) -> int:
    """Bytes of text in an answer, or in the beginning of a long one."""
    return sum(map(len, _TEXT.findall(body, 0, SMALL_BYTES)))


def written_in(body: bytes) -> int:
    """Bytes of text in a whole answer; of a long one all of its bytes, as nearly all are text."""
    return text_bytes(body) if len(body) <= SMALL_BYTES else len(body)


class StreamUsage:
    """Usage of a stream that `add` was given the parts of. They are looked at together, a few kilobytes at a time."""

    __slots__ = ("_events", "_seen_bytes", "_tail", "_text_bytes")

    def __init__(self) -> None:
        self._events = self._text_bytes = self._seen_bytes = 0
        self._tail = bytearray()

    def add(self, part: bytes) -> None:
        """`part` is of whole events, of which one may carry many tokens."""
        if len(part) > SMALL_BYTES:
            # Looked at where it is: a megabyte is not copied for it.
            self._look()
            self._seen(part)
            self._tail += part[-_TAIL_BYTES:]
            self._seen_bytes = len(self._tail)
        else:
            self._tail += part
        if len(self._tail) > 2 * _TAIL_BYTES:
            self._look()
            del self._tail[:-_TAIL_BYTES]
            self._seen_bytes = len(self._tail)

    def _look(self) -> None:
        fresh = self._tail[self._seen_bytes :]
        self._seen_bytes = len(self._tail)
        self._seen(fresh)

    def _seen(self, fresh: bytes | bytearray) -> None:
        self._text_bytes += text_bytes(fresh)
        # Of a long part as many in all of it as in its beginning.
        looked_at = min(len(fresh), LONG_BYTES)
        self._events += fresh.count(b"data:", 0, looked_at) * len(fresh) // max(1, looked_at)

    @property
    def written(self) -> int:
        """Tokens out, by estimate."""
        self._look()
        return max(self._events, self._text_bytes // _BYTES_A_TOKEN)

    def tokens(self, prompt_tokens: int) -> int:
        """Tokens in and out together; `prompt_tokens` is an estimate for a stream that does not say, or says
        what no answer has."""
        taken, written = _INPUT.findall(self._tail), _OUTPUT.findall(self._tail)
        if taken and written and (said := int(taken[-1]) + int(written[-1])) <= MOST_SAID:
            return said
        return prompt_tokens + self.written


class ToldUsage:
    """Usage that a live stream tells in whichever of its events: the last of them, or all together where each is of one
    choice. None as long as there is none."""

    __slots__ = ("usage",)

    def __init__(self) -> None:
        self.usage: Usage | None = None

    def seen(self, part: bytes) -> None:
        """`part` is of whole events."""
        at = 0
        while (found := tells_usage(part, at)) is not None:
            begin, at = (
                part.rfind(b"\n", at, found.start()) + 1 or at,
                part.find(b"\n", found.end()) + 1 or len(part),
            )
            if at - begin > LONG_BYTES or not part.startswith(b"data:", begin):
                continue
            if (told := usage_of_event(part[begin + 5 : at])) is not None:
                usage, of_one = told
                self.usage = usage.plus(self.usage or Usage()) if of_one else usage

"""What a streamed answer's bytes say, and when each token came."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from cascadia.clients.engines.openai_engine import OpenAIEngine
from cascadia.clients.engines.sse import Streamed, streamed, timed_events
from cascadia.domain.errors import BadInput


def event(**document: object) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def word(text: str, **more: object) -> bytes:
    return event(choices=[{"text": text, **more}])


USAGE = event(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 4})


def test_an_event_has_come_when_its_last_byte_has() -> None:
    parts = [(1.0, b"data: {}\r\n\r\ndata: [DO"), (2.0, b"NE]\n"), (3.0, b"\n")]
    assert timed_events(parts) == [(1.0, b"{}"), (2.0, b"[DONE]")]


def test_a_last_event_needs_no_line_end() -> None:
    assert timed_events([(1.0, b"data: [DONE]")]) == [(1.0, b"[DONE]")]


def test_tokens_are_shared_among_the_chunks_that_they_came_in() -> None:
    found = streamed(0.0, [(1.0, word("two tokens")), (2.0, word(" and two")), (2.5, USAGE)])
    assert found == Streamed(0.0, (1.0, 2.0), 2.5, 5, 4)
    assert (found.ttft_s, found.e2e_s) == (1.0, 2.0)
    assert [found.tokens_by(at) for at in (0.5, 1.0, 9.0)] == [0, 2, 4]


def test_an_announced_role_and_a_bare_end_are_no_tokens() -> None:
    role, said = {"delta": {"role": "assistant", "content": ""}}, {"delta": {"content": "yes"}}
    parts = [
        (1.0, event(choices=[role])),
        (2.0, event(choices=[said])),
        (3.0, word("", finish_reason="length")),
    ]
    found = streamed(0.0, [*parts, (4.0, USAGE)])
    assert isinstance(found, Streamed)
    assert found.chunks_s == (2.0,)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (event(error={"message": "out of memory"}), "out of memory"),
        (b"data: {oops\n\n", "not JSON"),
        (b"", "without any output"),
    ],
)
def test_what_is_no_answer_says_why(content: bytes, told: str) -> None:
    found = streamed(0.0, [(1.0, content)])
    assert isinstance(found, str)
    assert told in found


class Dropping(httpx.AsyncBaseTransport):
    """Drops the connection `drops` times, before the answer or in the middle of it."""

    def __init__(self, drops: int, midway: bool) -> None:
        self.drops, self.midway, self.asked = drops, midway, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        dropping = self.asked <= self.drops
        if dropping and not self.midway:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        stream = Parts([word("a"), USAGE], dropping)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=stream)


class Parts(httpx.AsyncByteStream):
    def __init__(self, parts: list[bytes], breaks: bool) -> None:
        self.parts, self.breaks = parts, breaks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            yield part
            if self.breaks:
                raise httpx.ReadError("gone")


def ask(transport: Dropping) -> Streamed:
    async def main() -> Streamed:
        async with OpenAIEngine("http://h/v1/", "m", transport=transport) as client:
            return await client.stream("/completions", {"prompt": "p"})

    return asyncio.run(main())


def test_a_kept_connection_that_the_engine_closed_is_tried_once_more() -> None:
    transport = Dropping(1, midway=False)
    assert ask(transport).output_tokens == 4
    assert transport.asked == 2
    with pytest.raises(BadInput, match=r"broke off .* check the engine's log"):
        ask(Dropping(2, midway=False))


def test_an_answer_that_has_begun_is_never_asked_for_again() -> None:
    transport = Dropping(1, midway=True)
    with pytest.raises(BadInput, match="http://h/v1/completions broke off"):
        ask(transport)
    assert transport.asked == 1

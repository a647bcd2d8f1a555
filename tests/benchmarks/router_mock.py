"""An engine that costs next to nothing: a fixed answer, as JSON or as a stream of chunks, on uvloop.

`python -m tests.benchmarks.router_mock` prints its port and serves until its standard input closes.
"""

import asyncio
import gc
import json
import sys
import time

import httptools
import uvloop

TEXT = "The answer is four, because two and two are four. " * 2
CHUNKS = 50


def _document(text: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 20, "completion_tokens": 24, "total_tokens": 44}
    body = {"id": "c-1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
    return json.dumps(body).encode()


def _answer(kind: str, body: bytes) -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


WHOLE = _answer("application/json", _document(TEXT))
GRADE = _answer("application/json", _document("7"))
HEALTHY = _answer("application/json", b"{}")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _chunk(data: str) -> bytes:
    line = f"data: {data}\n\n".encode()
    return f"{len(line):x}\r\n".encode() + line + b"\r\n"


DELTA = _chunk(json.dumps({"id": "c-1", "choices": [{"index": 0, "delta": {"content": "four "}}]}))
END = _chunk("[DONE]") + b"0\r\n\r\n"


class Paced:
    """A stream whose parts come at a pace of the request's own, each with the time it was sent."""

    def __init__(self, transport: asyncio.Transport, body: bytes) -> None:
        asked = json.loads(body)
        self.transport = transport
        self.left = asked["parts"]
        self.every_s = asked["every_ms"] / 1000
        transport.write(HEAD)
        self.step()

    def step(self) -> None:
        if self.transport.is_closing():
            return
        if self.left == 0:
            self.transport.write(END)
            return
        self.left -= 1
        sent = time.monotonic_ns()
        self.transport.write(
            _chunk(f'{{"id":"c","choices":[{{"index":0,"delta":{{"content":"four "}}}}],"sent_ns":{sent}}}')
        )
        asyncio.get_running_loop().call_later(self.every_s, self.step)


class Mock(asyncio.Protocol):
    """Answers whatever is POSTed; `"stream":true` gets `CHUNKS` chunks, one a turn of the loop; a judge grades 7."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.parser = httptools.HttpRequestParser(self)
        self.body = b""
        self.left = 0

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_begin(self) -> None:
        self.body = b""

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        if self.parser.get_method() == b"GET":
            self.transport.write(HEALTHY)
        elif b'"answer_ms"' in self.body:
            later_s = json.loads(self.body)["answer_ms"] / 1000
            asyncio.get_running_loop().call_later(later_s, self.transport.write, WHOLE)
        elif b'"every_ms"' in self.body:
            Paced(self.transport, self.body)
        elif b'"stream":true' in self.body:
            self.left = CHUNKS
            self.transport.write(HEAD)
            self.step()
        else:
            self.transport.write(GRADE if b'"model":"judge"' in self.body else WHOLE)

    def step(self) -> None:
        if self.transport.is_closing():
            return
        if self.left == 0:
            self.transport.write(END)
            return
        self.left -= 1
        self.transport.write(DELTA)
        asyncio.get_running_loop().call_soon(self.step)


async def main() -> None:
    loop = asyncio.get_running_loop()
    # What streams hold is let go of without it, and a pause would be taken for the router's.
    gc.disable()
    server = await loop.create_server(Mock, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    uvloop.run(main())

"""An engine as a process that fails as it is told: `python -m tests.e2e.chaos_engine NAME PORT WORK_S SLOTS`.

It answers a question with its name and the question's hash, so that nobody can get another's answer unnoticed; a judge
grades 1 what is `hard`, else 9. `PUT /chaos {"mode": ...}` tells it how to fail from now on.
"""

import asyncio
import json
import resource
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

SLOW_S = 2.0
DRIP_S = 0.1
CHUNKS = 4
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def expected(question: str) -> str:
    return sha256(question.encode()).hexdigest()[:12]


class Engine:
    """`slots` answers at a time, each of which takes `work_s`."""

    def __init__(self, name: str, work_s: float, slots: int) -> None:
        self.name = name
        self.work_s = work_s
        self.slots = asyncio.Semaphore(slots)
        self.mode = "fine"

    def text(self, body: dict[str, Any]) -> str:
        asked = body["messages"][-1]["content"]
        if isinstance(asked, list):
            asked = "".join(part["text"] for part in asked)
        if self.name == "judge":
            if self.mode == "lies":
                return "9"
            return "1" if "hard" in json.dumps(body["messages"]) else "9"
        return f"{self.name} {expected(asked)}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self.exchange(reader, writer):
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = head.lower().partition("content-length: ")[2].split("\r\n")[0]
        body = json.loads(await reader.readexactly(int(length))) if length else {}
        if head.startswith("GET"):
            whole(writer, b"{}", status=503 if self.mode == "unhealthy" else 200)
        elif head.startswith("PUT"):
            self.mode = body["mode"]
            whole(writer, b"{}")
        else:
            async with self.slots:
                await asyncio.sleep(self.work_s)
                return await MODES.get(self.mode, fine)(self, body, writer)
        return True


def document(engine: Engine, body: dict[str, Any]) -> bytes:
    message = {"role": "assistant", "content": engine.text(body)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    found = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    return json.dumps(found | {"usage": USAGE}).encode()


def whole(
    writer: asyncio.StreamWriter,
    body: bytes,
    *,
    status: int = 200,
    kind: str = "application/json",
    length: int = 0,
) -> None:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length or len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


def chunk(writer: asyncio.StreamWriter, data: str) -> None:
    line = f"data: {data}\n\n".encode()
    writer.write(b"%x\r\n%s\r\n" % (len(line), line))


async def stream(
    engine: Engine, body: dict[str, Any], writer: asyncio.StreamWriter, chunks: int, pause_s: float
) -> None:
    """The first `chunks` parts of the answer."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    text = engine.text(body)
    size = -(-len(text) // CHUNKS)
    parts = [text[i : i + size] for i in range(0, len(text), size)]
    delta = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    for at, part in enumerate(parts[:chunks], 1):
        # As real engines: a client of others' takes a stream without one for broken.
        reason = "stop" if at == len(parts) else None
        choice = {"index": 0, "delta": {"content": part}, "finish_reason": reason}
        chunk(writer, json.dumps(delta | {"choices": [choice]}))
        await writer.drain()
        await asyncio.sleep(pause_s)


async def fine(engine: Engine, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
    if not body.get("stream"):
        whole(writer, document(engine, body))
        return True
    await stream(engine, body, writer, CHUNKS, engine.work_s / CHUNKS)
    if (body.get("stream_options") or {}).get("include_usage"):
        chunk(
            writer, json.dumps({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": USAGE})
        )
    chunk(writer, "[DONE]")
    writer.write(b"0\r\n\r\n")
    return True


async def hangs(engine: Engine, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
    await asyncio.sleep(3600)
    return False


def reset(writer: asyncio.StreamWriter) -> bool:
    """A reset, not an end: what was not read yet is lost on the way."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False


async def resets(engine: Engine, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
    return reset(writer)


async def resets_in_body(engine: Engine, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
    content = document(engine, body)
    whole(writer, content[:50], length=len(content))
    await writer.drain()
    await asyncio.sleep(0.01)
    return reset(writer)


async def cuts_streams(engine: Engine, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
    if not body.get("stream"):
        return await fine(engine, body, writer)
    await stream(engine, body, writer, CHUNKS // 2, 0.01)
    return reset(writer)


async def cuts_streams_at_once(engine: Engine, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
    """Before the first part: nobody has seen anything."""
    await stream(engine, body, writer, 0, 0.0)
    return reset(writer)


async def garbage(engine: Engine, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
    writer.write(b"\x16\x03\x01\x02\x00 no HTTP at all\r\n\r\n")
    return False


async def garbage_json(engine: Engine, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
    whole(writer, b'{"choices": [{"message": nonsense}]}')
    return True


async def truncated_json(engine: Engine, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
    content = document(engine, body)
    whole(writer, content[: len(content) // 2])
    return True


async def html(engine: Engine, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
    whole(writer, b"<html><body>Welcome to nginx!</body></html>", kind="text/html")
    return True


async def first_byte_late(engine: Engine, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
    await asyncio.sleep(SLOW_S)
    return await fine(engine, body, writer)


async def drips(engine: Engine, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
    """A byte at a time: an answer that would take half a minute."""
    content = document(engine, body)
    whole(writer, b"", length=len(content))
    for i in range(len(content)):
        writer.write(content[i : i + 1])
        await writer.drain()
        await asyncio.sleep(DRIP_S)
    return True


def says(status: int) -> "Mode":
    async def mode(engine: Engine, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        whole(
            writer, b'{"error": {"message": "no", "type": "x", "param": null, "code": null}}', status=status
        )
        return True

    return mode


Mode = Callable[[Engine, dict[str, Any], asyncio.StreamWriter], Awaitable[bool]]
MODES: dict[str, Mode] = {
    "hangs": hangs,
    "resets": resets,
    "resets in the body": resets_in_body,
    "cuts streams": cuts_streams,
    "cuts streams at once": cuts_streams_at_once,
    "garbage": garbage,
    "garbage json": garbage_json,
    "truncated json": truncated_json,
    "html": html,
    "first byte late": first_byte_late,
    "drips": drips,
    **{f"says {status}": says(status) for status in (429, 500, 503)},
}


async def main(name: str, port: int, work_s: float, slots: int, host: str = "127.0.0.1") -> None:
    engine = Engine(name, work_s, slots)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    server = await asyncio.start_server(engine.serve, host, port, backlog=4096)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:]))

"""An engine that costs nothing: it answers any chat after a moment with its own name."""

import asyncio
import json
from contextlib import suppress

PORT = 8000
TAKES_S = 0.02


class Engine:
    """At an address of its own. At `stop` it takes no more connections and finishes what it has, as engines do."""

    def __init__(self, address: str, name: str) -> None:
        self.address = address
        self._name = name
        self._busy = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, self.address, PORT)

    async def ready(self) -> bool:
        return self._server is not None

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        while self._busy:
            await asyncio.sleep(0.01)
        self.kill()

    def kill(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self._busy += 1
                try:
                    body = await reader.readexactly(_length(head))
                    await self._answer(writer, json.loads(body) if body else None)
                finally:
                    self._busy -= 1
        self._writers.discard(writer)
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, asked: dict[str, object] | None) -> None:
        document: dict[str, object] = {"status": "ok"}
        if asked is not None:
            await asyncio.sleep(TAKES_S)
            message = {"role": "assistant", "content": self._name}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
            document = {"id": "x", "object": "chat.completion", "created": 0, "model": asked.get("model")}
            document |= {"choices": [choice], "usage": usage}
        text = json.dumps(document).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
        writer.write(head.encode() + text)
        await writer.drain()


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0

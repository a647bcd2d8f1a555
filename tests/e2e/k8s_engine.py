"""An engine that costs nothing: it answers any chat after a moment with its own name.

Its /metrics are those of a vLLM that always has one sequence in hand; one of `SLOW` takes twice as long for each token,
those of `PLANNED_TOKEN_S` as long as is planned.
It says to have read what it was sent and written as many tokens as were allowed, and that it is sure of the answer by
chance: margins of log-probabilities are uniform.
"""

import asyncio
import json
import math
import random
import time
from contextlib import suppress
from typing import Any

PORT = 8000
TAKES_S = 0.02
BYTES_PER_TOKEN = 4
TOKEN_S = 0.02
PLANNED_TOKEN_S = {"-small-h100-sxm-tp1pp1-": 0.0066, "-large-h100-sxm-tp2pp1-": 0.0293}
"""By what is in the name of a pod: an 8B on one H100 and a 70B on two, which a plan that was calculated asks for, are
as fast as it takes them to be. Others would be planned by, and one that is thrice too slow has no plan."""
SLOW = "-tp2pp1-1-"
"""In the name of its pod: the second replica of two GPUs."""


class Engine:
    """At an address of its own. At `stop` it takes no more connections and finishes what it has, as engines do."""

    def __init__(self, address: str, name: str) -> None:
        self.address = address
        self._name = name
        self._busy = 0
        self._began_s = time.monotonic()
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
                    await self._answer(writer, head.split()[1], body)
                finally:
                    self._busy -= 1
        self._writers.discard(writer)
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, path: bytes, body: bytes) -> None:
        document: dict[str, Any] = {"status": "ok"}
        if body:
            await asyncio.sleep(TAKES_S)
            document = _chat(json.loads(body), len(body) // BYTES_PER_TOKEN, self._name)
        text = json.dumps(document).encode()
        if path == b"/metrics":
            text = _metrics(time.monotonic() - self._began_s, _token_s(self._name))
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
        writer.write(head.encode() + text)
        await writer.drain()


def _chat(asked: dict[str, Any], read_tokens: int, name: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": name}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": "stop"}
    if asked.get("logprobs"):
        p = random.uniform(0.5, 0.99)
        told = [{"token": token, "logprob": math.log(q)} for token, q in (("yes", p), ("no", 1.0 - p))]
        choice["logprobs"] = {"content": [{**told[0], "top_logprobs": told}]}
    written = asked.get("max_tokens", 1)
    usage = {"prompt_tokens": read_tokens, "completion_tokens": written}
    usage["total_tokens"] = read_tokens + written
    about = {"id": "x", "object": "chat.completion", "created": 0, "model": asked["model"]}
    return {**about, "choices": [choice], "usage": usage}


def _token_s(name: str) -> float:
    planned = (token_s for named, token_s in PLANNED_TOKEN_S.items() if named in name)
    return next(planned, 2 * TOKEN_S if SLOW in name else TOKEN_S)


def _metrics(seconds: float, token_s: float) -> bytes:
    tokens = seconds / token_s
    lines = {
        "vllm:prompt_tokens_total": tokens,
        "vllm:generation_tokens_total": tokens,
        "vllm:inter_token_latency_seconds_sum": seconds,
        "vllm:time_to_first_token_seconds_count": tokens / 100,
        "vllm:time_to_first_token_seconds_sum": 1.0,
    }
    return "".join(f'{name}{{engine="0"}} {value}\n' for name, value in lines.items()).encode()


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0

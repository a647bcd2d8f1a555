"""An OpenAI server in virtual time, with continuous batching, whose iterations obey a law of the test's choice."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

Law = Callable[[int, int, int, int], float]
"""Seconds of an iteration of (tokens, sequences, context tokens, attention pairs)."""


@dataclass
class Sequence:
    prompt: int
    wanted: int
    read: int = 0
    written: int = 0
    tokens: "asyncio.Queue[str | None]" = field(default_factory=asyncio.Queue)


class Events(httpx.AsyncByteStream):
    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._parts:
            yield part


@dataclass
class FakeEngine(httpx.AsyncBaseTransport):
    """`request_s` passes before a request reaches the scheduler. `served` are the names of its models."""

    law: Law
    max_num_seqs: int = 8
    max_num_batched_tokens: int = 512
    request_s: float = 0.0
    served: tuple[str, ...] = ("m",)
    key: str | None = None
    streams: bool = True
    counts: bool = True
    strict: bool = False
    chat_only: bool = False
    metrics: str = ""
    card: dict[str, Any] = field(default_factory=lambda: {"max_model_len": 2048})
    waiting: deque[Sequence] = field(default_factory=deque)
    running: list[Sequence] = field(default_factory=list)
    working: "asyncio.Task[None] | None" = None
    most_running: int = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            return _error(401, "Unauthorized")
        match request.url.path:
            case "/v1/models":
                return httpx.Response(200, json={"data": [self.card | {"id": n} for n in self.served]})
            case "/metrics" if self.metrics:
                return httpx.Response(200, text=self.metrics)
            case "/v1/completions" if not self.chat_only:
                return await self._complete(json.loads(await request.aread()))
            case "/v1/chat/completions":
                return await self._complete(json.loads(await request.aread()))
        return _error(404, "Not Found")

    async def _complete(self, body: dict[str, Any]) -> httpx.Response:
        if self.strict and "ignore_eos" in body:
            return _error(400, "unknown field ignore_eos")
        prompt = body.get("prompt") or body["messages"][0]["content"]
        if not self.streams:
            return httpx.Response(200, json={"choices": [{"text": "all of it"}], "usage": {}})
        await asyncio.sleep(self.request_s)
        sequence = Sequence(len(prompt.split()), body["max_tokens"])
        self.waiting.append(sequence)
        if self.working is None or self.working.done():
            self.working = asyncio.create_task(self._work())
        events = Events(self._answer(sequence, "prompt" in body))
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=events)

    async def _answer(self, sequence: Sequence, plain: bool) -> AsyncIterator[bytes]:
        if not plain:
            yield _event({"choices": [{"delta": {"role": "assistant"}}]})
        while (word := await sequence.tokens.get()) is not None:
            yield _event({"choices": [{"text": word} if plain else {"delta": {"content": word}}]})
        usage = {"prompt_tokens": sequence.prompt, "completion_tokens": sequence.written}
        if self.counts:
            yield _event({"choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"

    async def _work(self) -> None:
        while self.running or self.waiting:
            chunks = self._schedule()
            decoding = [s for s in self.running if s.written]
            pairs = sum(q * (s.read + q) - q * (q - 1) // 2 for s, q in chunks)
            tokens = len(decoding) + sum(q for _, q in chunks)
            yielding = len(decoding) + sum(s.read + q == s.prompt for s, q in chunks)
            context = sum(s.prompt + s.written for s in decoding)
            await asyncio.sleep(self.law(tokens, yielding, context, pairs))
            for sequence, q in chunks:
                sequence.read += q
            for sequence in [s for s in self.running if s.read == s.prompt]:
                sequence.written += 1
                sequence.tokens.put_nowait("word")
                if sequence.written == sequence.wanted:
                    sequence.tokens.put_nowait(None)
                    self.running.remove(sequence)

    def _schedule(self) -> list[tuple[Sequence, int]]:
        """Decoding first, then chunks of prompts, those begun before the new."""
        while self.waiting and len(self.running) < self.max_num_seqs:
            self.running.append(self.waiting.popleft())
        self.most_running = max(self.most_running, len(self.running))
        budget = self.max_num_batched_tokens - sum(1 for s in self.running if s.written)
        chunks = []
        for sequence in self.running:
            chunk = min(sequence.prompt - sequence.read, budget)
            if chunk > 0:
                chunks.append((sequence, chunk))
                budget -= chunk
        return chunks


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def _error(status: int, message: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": message}})

"""The same with llama.cpp and a model: what its server does when it dies or stops is not for us to imagine."""

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from cascadia.clients.processes.ports import free_port
from tests.e2e.chaos_fleet import HEALTH, Process
from tests.e2e.commands import PROGRAM
from tests.e2e.engine_commands import llama_command
from tests.e2e.engine_servers import CONTEXT, NAME

SLOTS = 4
ENOUGH, WAIT_S = 15, 120.0
"""Answers after the engine is gone, however busy this machine is."""
LIMITS = {"first_byte_s": 60.0, "idle_s": 3.0}


def engine(folder: Path, number: int) -> Process:
    port = free_port()
    command = llama_command(port, SLOTS, CONTEXT)
    return Process(f"llama-{number}", port, command, folder / f"llama-{number}.log")


class Pair:
    """A router, and two engines behind its only stage."""

    def __init__(self, folder: Path) -> None:
        self.engines = [engine(folder, i) for i in range(2)]
        port = free_port()
        path = folder / "router.yaml"
        command = [str(PROGRAM), "serve", str(path), "--port", str(port)]
        self.router = Process("router", port, command, folder / "router.log")
        replicas = [{"url": e.url, "max_concurrency": 2 * SLOTS} for e in self.engines]
        stage = {"name": "small", "model": NAME, "replicas": replicas}
        path.write_text(str({"stages": [stage], "limits": LIMITS, "health": HEALTH}))

    async def ready(self) -> None:
        async with httpx.AsyncClient(base_url=self.router.url, trust_env=False) as client:
            async with asyncio.timeout(60):
                while True:
                    stages = (await client.get("/ready")).json()["stages"]
                    replicas = stages["small"]["replicas"].values()
                    if all(r["state"] == "ready" and r["breaker"] == "closed" for r in replicas):
                        return
                    await asyncio.sleep(0.1)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    found = Pair(tmp_path)
    try:
        for process in (*found.engines, found.router):
            process.start()
        yield found
    finally:
        for process in (found.router, *found.engines):
            process.kill()


async def asks(client: openai.AsyncOpenAI, k: int) -> str:
    """What became of one question; a stream's is told apart where it broke off."""
    body: dict[str, Any] = {
        "model": "small",
        "max_tokens": 24,
        "messages": [{"role": "user", "content": f"Count {k}"}],
    }
    try:
        if k % 2:
            stream = await client.chat.completions.create(**body, stream=True)
            parts = [part async for part in stream]
            return "answered" if parts[-1].choices[0].finish_reason else "lost: no end"
        answer = await client.chat.completions.create(**body)
        return "answered" if answer.usage and answer.choices[0].finish_reason else "lost: no end"
    except openai.APIStatusError as error:
        return f"lost: {error.code}, {error}"
    except openai.APIError:
        return "broken off" if k % 2 else "lost: an error in place of an answer"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_an_engine_that_dies_or_hangs_while_it_writes(
    number: signal.Signals, pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> Counter[str]:
        await pair.ready()
        seen: Counter[str] = Counter()
        ended = asyncio.Event()
        async with openai.AsyncOpenAI(
            base_url=f"{pair.router.url}/v1", api_key="none", max_retries=0
        ) as client:

            async def work(first: int) -> None:
                k = first
                while not ended.is_set():
                    seen[await asks(client, k)] += 1
                    k += 4 + (k // 4) % 2

            workers = [asyncio.create_task(work(k)) for k in range(6)]
            await asyncio.sleep(3.0)
            pair.engines[0].send(number)
            enough = seen["answered"] + ENOUGH
            async with asyncio.timeout(WAIT_S):
                while seen["answered"] < enough:
                    await asyncio.sleep(0.1)
            ended.set()
            await asyncio.gather(*workers)
        return seen

    seen = asyncio.run(main())
    with capsys.disabled():
        print(f"\nllama.cpp gets {number.name}: {dict(seen)}", end="")
    assert set(seen) <= {"answered", "broken off"}, seen
    assert seen["broken off"] <= 6

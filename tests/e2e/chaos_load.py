"""Questions asked without a pause while things break, and what became of each of them.

An outcome is `answered` (whole, and to this question), `broken off` (a stream that had begun ends with an error event),
the code of a clean error, or `lost`: anything that is no correct OpenAI answer.
"""

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.e2e.chaos_engine import expected

PATIENCE_S = 60.0


class Kind(NamedTuple):
    """Of question. `hard` ones the judge refuses at the first stage."""

    model: str
    stream: bool
    hard: bool = False


MIX = (
    Kind("small", stream=False),
    Kind("small", stream=True),
    Kind("cascadia", stream=False),
    Kind("cascadia", stream=True),
    Kind("cascadia", stream=False, hard=True),
    Kind("cascadia", stream=True, hard=True),
)
HELD = tuple(kind for kind in MIX if not kind.stream or (kind.model == "cascadia" and not kind.hard))
"""Those of which a client sees nothing before all of it is there."""


class Outcome(NamedTuple):
    kind: Kind
    what: str
    began_s: float
    seconds: float


@dataclass
class Seen:
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def counts(self) -> Counter[str]:
        return Counter(outcome.what for outcome in self.outcomes)

    @property
    def slowest_s(self) -> float:
        return max(outcome.seconds for outcome in self.outcomes)

    def quantile_s(self, q: float) -> float:
        return sorted(outcome.seconds for outcome in self.outcomes)[int(q * (len(self.outcomes) - 1))]

    def told(self, name: str) -> str:
        counts = ", ".join(f"{n} {what}" for what, n in self.counts.most_common())
        return f"{name:38} {counts}; median {self.quantile_s(0.5):.3f} s, slowest {self.slowest_s:.2f} s"


class Client:
    """Keeps its connection, and says what came back as it is."""

    def __init__(self, port: int, headers: str = "") -> None:
        """`headers`: whole lines that each request has besides."""
        self.port = port
        self._headers = headers
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, body: dict[str, Any]) -> tuple[int, str, bytes]:
        """Status, content type and body. Raises `ConnectionError` or `IncompleteReadError`."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        assert self._reader is not None
        content = json.dumps(body).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(content)}\r\n"
        self._writer.write(f"{head}{self._headers}\r\n".encode() + content)
        try:
            return await self._answer(self._reader)
        except BaseException:
            self.close()
            raise

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[int, str, bytes]:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        if "chunked" in headers.get("transfer-encoding", ""):
            body = b"".join([part async for part in _chunks(reader)])
        else:
            body = await reader.readexactly(int(headers["content-length"]))
        if headers.get("connection") == "close":
            self.close()
        return int(lines[0].split()[1]), headers["content-type"], body

    async def closed(self) -> None:
        """Closes it, and waits until it is."""
        writer = self._writer
        self.close()
        if writer is not None:
            with suppress(ConnectionError):
                await writer.wait_closed()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


async def _chunks(reader: asyncio.StreamReader) -> Any:
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)


def judged(kind: Kind, question: str, status: int, content_type: str, body: bytes) -> str:
    """What this answer is."""
    if status != 200:
        error = json.loads(body)["error"]
        clean = set(error) == {"message", "type", "param", "code"} and content_type == "application/json"
        return str(error["code"]) if clean else f"lost: an error that is not OpenAI's ({status})"
    if not kind.stream:
        said = json.loads(body)["choices"][0]["message"]["content"]
        return "answered" if said.endswith(expected(question)) else "lost: another's answer"
    lines = body.decode().splitlines()
    data = [line[6:] for line in lines if line.startswith("data: ")]
    if not data or any(line and not line.startswith(("data: ", ":")) for line in lines):
        return "lost: no event stream"
    if data[-1] != "[DONE]":
        return "broken off" if "error" in json.loads(data[-1]) else "lost: a stream without an end"
    parts = [json.loads(part)["choices"] for part in data[:-1]]
    said = "".join(choices[0]["delta"].get("content") or "" for choices in parts if choices)
    return "answered" if said.endswith(expected(question)) else "lost: another's answer"


async def ask(client: Client, kind: Kind, number: int, **more: Any) -> Outcome:
    question = f"{'hard' if kind.hard else 'easy'} question {number}"
    message = {"role": "user", "content": question}
    body = {"model": kind.model, "stream": kind.stream, "messages": [message]} | more
    began_s = time.monotonic()
    try:
        async with asyncio.timeout(PATIENCE_S):
            what = judged(kind, question, *await client.post(body))
    except TimeoutError:
        what = "lost: no answer"
    except (ConnectionError, asyncio.IncompleteReadError) as error:
        what = f"lost: {type(error).__name__}"
    except (ValueError, KeyError, TypeError) as error:
        what = f"lost: unreadable ({type(error).__name__})"
    return Outcome(kind, what, began_s, time.monotonic() - began_s)


class Load:
    """`workers` that each ask one question after another, until `stop`."""

    def __init__(
        self,
        port: int,
        kinds: Sequence[Kind] = MIX,
        workers: int = 6,
        pause_s: float = 0.03,
        headers: str = "",
    ) -> None:
        self.port = port
        self.headers = headers
        self.kinds = kinds
        self.workers = workers
        self.pause_s = pause_s
        self.seen = Seen()
        self._ended = asyncio.Event()
        self._numbers = itertools.count()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Load":
        self._tasks = [asyncio.create_task(self._work(i)) for i in range(self.workers)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended.set()
        await asyncio.gather(*self._tasks)

    async def _work(self, worker: int) -> None:
        client = Client(self.port, self.headers)
        for kind in itertools.islice(itertools.cycle(self.kinds), worker % len(self.kinds), None):
            self.seen.outcomes.append(await ask(client, kind, next(self._numbers)))
            if self._ended.is_set():
                await client.closed()
                return
            await asyncio.sleep(self.pause_s)

    async def after(self, seconds: float) -> None:
        """Lets the load run on."""
        await asyncio.sleep(seconds)

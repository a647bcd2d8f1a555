"""One engine: its address, its health, the work it has in hand, and exchanges with it."""

from dataclasses import dataclass
from typing import Literal

from cascadia.clients.upstream_connection import Connection
from cascadia.clients.upstream_errors import UpstreamError
from cascadia.clients.upstream_pool import Pool
from cascadia.router.breaker import Breaker
from cascadia.router.settings import Limits, ReplicaSettings
from cascadia.router.steps import Step

State = Literal["starting", "ready", "down", "draining"]


@dataclass(frozen=True, slots=True)
class Call:
    """A request as an engine gets it. `headers` are whole lines; `tokens` an estimate of in and out together.

    `deadline_s` is in the event loop's time. `step` is told what becomes of it.
    """

    path: bytes
    body: bytes
    headers: bytes
    tokens: int
    prefix: int | None
    deadline_s: float
    step: Step | None = None


class Replica:
    """`name` is unique within the stage, and free of the address's secrets."""

    __slots__ = (
        "_prefix",
        "breaker",
        "health_request",
        "limits",
        "max_concurrency",
        "name",
        "outstanding_tokens",
        "pool",
        "running",
        "state",
        "weight",
    )

    def __init__(self, name: str, settings: ReplicaSettings, limits: Limits) -> None:
        self.name = name
        self.weight = settings.share
        self.max_concurrency = settings.max_concurrency
        self.limits = limits
        self.pool = Pool(settings.url, limits.connect_s)
        self.breaker = Breaker(limits.breaker_failures, limits.breaker_first_s, limits.breaker_longest_s)
        self.state: State = "ready" if settings.health_path is None else "starting"
        self.running = 0
        self.outstanding_tokens = 0
        host = b"host: " + self.pool.netloc.encode("ascii") + b"\r\n"
        key = (
            b"authorization: Bearer " + settings.api_key.encode("ascii") + b"\r\n"
            if settings.api_key
            else b""
        )
        self._prefix = b" HTTP/1.1\r\n" + host + key + b"content-type: application/json\r\n"
        path = (settings.health_path or "").encode("ascii")
        self.health_request = b"GET " + path + b" HTTP/1.1\r\n" + host + key + b"\r\n" if path else b""

    def usable(self, now_s: float) -> bool:
        return self.state == "ready" and self.breaker.allows(now_s)

    def request(self, call: Call) -> bytes:
        length = str(len(call.body)).encode("ascii")
        head = b"POST " + call.path + self._prefix + call.headers + b"content-length: " + length
        return head + b"\r\n\r\n" + call.body

    async def begin(self, request: bytes, first_byte_s: float, total_s: float) -> Connection:
        """An exchange whose head has come. Raises `UpstreamError`; else `pool.release` it in the end.

        A connection that turns out to have been closed while it was kept is replaced by a fresh one.
        """
        while True:
            connection = self.pool.take() or await self.pool.connect()
            try:
                connection.send(
                    request,
                    first_byte_s=first_byte_s,
                    total_s=total_s,
                    max_bytes=self.limits.max_answer_bytes,
                )
                await connection.head()
            except UpstreamError as error:
                self.pool.release(connection)
                if not error.stale:
                    raise
            except BaseException:
                self.pool.release(connection)
                raise
            else:
                return connection

    async def is_healthy(self, timeout_s: float) -> bool:
        """Whether it answers its health check at all and not with 5xx."""
        try:
            connection = await self.begin(self.health_request, timeout_s, timeout_s)
        except UpstreamError:
            return False
        try:
            await connection.whole()
        except UpstreamError:
            return False
        finally:
            self.pool.release(connection)
        return connection.status < 500

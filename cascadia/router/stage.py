"""One stage: requests wait for a replica, are sent to one, and to another where that fails before its answer began."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

from cascadia.clients.upstream_connection import TICK_S, Connection
from cascadia.clients.upstream_errors import UpstreamError
from cascadia.dispatch.candidate import Balancer
from cascadia.dispatch.least_outstanding import LeastOutstanding
from cascadia.dispatch.prefix_affinity import PrefixAffinity
from cascadia.dispatch.round_robin import SmoothRoundRobin
from cascadia.router.breaker import RetryBudget
from cascadia.router.failures import Overloaded, StageFailed
from cascadia.router.metrics import StageMetrics
from cascadia.router.replica import Call, Replica
from cascadia.router.settings import Limits, StageSettings
from cascadia.router.turns import Turns

T = TypeVar("T")
A = TypeVar("A")

_MISCONFIGURED = frozenset({401, 403, 404, 405})
"""Not the client's doing: key, model and path of what an engine gets are the router's."""
_BUSY = frozenset({408, 409, 425, 429})
LEARNS = 0.1
"""Weight of the latest answer in a stage's typical time."""


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """A whole answer: status 200, and what was `found` in it; or a 4xx that the client has caused."""

    status: int
    content_type: bytes
    body: bytes
    found: T | None = None
    first_at_s: float | None = None
    """When its body began, in the loop's time; of an event stream only."""


class Live:
    """An answer under way. `first` is its first part; `close` must be called in the end."""

    __slots__ = ("_connection", "_done", "_replica", "first", "reply")

    def __init__(
        self, replica: Replica, connection: Connection, done: "Callable[[bool | None], None]"
    ) -> None:
        self._replica = replica
        self._connection = connection
        self._done = done
        self.first = b""
        self.reply: Reply[None] | None = None
        """Set where it turned out to be a refusal instead."""

    async def some(self) -> bytes:
        """The next part; empty at the end. Raises `UpstreamError`."""
        return await self._connection.some()

    def close(self, ok: bool | None) -> None:
        """`ok`: whether the engine did well; None where it cannot be told."""
        self._replica.pool.release(self._connection)
        self._done(ok)


class Stage:
    """`settings.replicas` in order; `metrics` of this stage."""

    def __init__(self, settings: StageSettings, limits: Limits, metrics: StageMetrics) -> None:
        self.name = settings.name
        # A plan's names are anyone's: what may not stand in a header is written as %XX.
        self.header = (b"x-cascadia-stage", quote(settings.name, safe=" /:@!$&'()*+,;=~").encode("ascii"))
        self.settings = settings
        self.limits = limits
        self.metrics = metrics
        self.replicas = [Replica(f"{settings.name}-{i}", r, limits) for i, r in enumerate(settings.replicas)]
        self.balancer = _balancer(settings)
        self.budget = RetryBudget(limits.retry_ratio)
        self.turns = Turns()
        self.typical_s = 0.0
        self.when_crowded: Callable[[], None] | None = None
        """Called when a request has to wait for a replica."""

    async def buffered(self, call: Call, read: Callable[[bytes, bytes], T]) -> Reply[T]:
        """The whole answer. `read` is given content type and body of a 200 and raises `UpstreamError` where they are
        no answer. Raises `StageFailed`, `Overloaded` among them."""

        async def attempt(replica: Replica, done: Callable[[bool | None], None]) -> Reply[T]:
            started_s = asyncio.get_running_loop().time()
            connection = await self._begin(replica, call)
            try:
                body = await connection.whole()
            finally:
                replica.pool.release(connection)
            status = connection.status
            found: T | None = None
            if status == 200:
                found = read(connection.content_type, body)
                took_s = asyncio.get_running_loop().time() - started_s
                self.typical_s += LEARNS * (took_s - self.typical_s) if self.typical_s else took_s
            else:
                _refuse(status)
            done(True)
            streamed = connection.content_type.startswith(b"text/event-stream")
            first_at_s = connection.body_at_s if streamed else None
            return Reply(status, connection.content_type, body, found, first_at_s)

        return await self._persist(call, attempt)

    async def opened(self, call: Call) -> Live:
        """An answer whose first part has come. Raises `StageFailed`."""

        async def attempt(replica: Replica, done: Callable[[bool | None], None]) -> Live:
            connection = await self._begin(replica, call)
            live = Live(replica, connection, done)
            try:
                if connection.status != 200:
                    body = await connection.whole()
                    _refuse(connection.status)
                    live.reply = Reply(connection.status, connection.content_type, body)
                else:
                    if not connection.content_type.startswith(b"text/event-stream"):
                        raise UpstreamError("unreadable", "no event stream")
                    connection.stream(self.limits.idle_s)
                    live.first = await connection.some()
                    if not live.first:
                        raise UpstreamError("unreadable", "an empty event stream")
            except BaseException:
                replica.pool.release(connection)
                raise
            return live

        return await self._persist(call, attempt)

    async def _begin(self, replica: Replica, call: Call) -> Connection:
        left_s = call.deadline_s - asyncio.get_running_loop().time()
        if left_s <= 0:
            raise UpstreamError("total")
        return await replica.begin(
            replica.request(call), self.limits.first_byte_s, min(left_s, self.limits.total_s)
        )

    async def _persist(
        self, call: Call, attempt: Callable[[Replica, Callable[[bool | None], None]], Awaitable[A]]
    ) -> A:
        loop = asyncio.get_running_loop()
        self.budget.earn()
        tried: list[Replica] = []
        failure: UpstreamError | None = None
        while True:
            replica = await self._replica(call, tried, failure)
            done = self._given(replica, call)
            if call.step is not None:
                call.step.tries += 1
                call.step.replica = replica.name
            try:
                return await attempt(replica, done)
            except UpstreamError as error:
                # Past the request's own deadline nobody is to blame; a full engine is busy, not broken.
                late = error.kind in ("total", "first-byte") and loop.time() + TICK_S >= call.deadline_s
                done(None if late or error.kind == "busy" else False)
                self.metrics.upstream_error(error.kind)
                if late:
                    raise StageFailed(self.name, "deadline") from None
                failure = error
                tried.append(replica)
                if len(tried) >= self.limits.max_tries or not self.budget.take():
                    raise self._failed(failure) from None
            except BaseException:
                done(None)
                raise

    def _given(self, replica: Replica, call: Call) -> Callable[[bool | None], None]:
        """Counts the request to `replica`; what is returned ends that, once, and tells its breaker."""
        replica.running += 1
        replica.outstanding_tokens += call.tokens
        probe = replica.breaker.begin()
        ended = False

        def done(ok: bool | None) -> None:
            nonlocal ended
            if ended:
                return
            ended = True
            replica.running -= 1
            replica.outstanding_tokens -= call.tokens
            if ok:
                replica.breaker.succeeded()
            elif ok is None:
                replica.breaker.abandoned(probe)
            else:
                replica.breaker.failed(asyncio.get_running_loop().time(), probe)
            self.turns.wake()

        return done

    async def _replica(self, call: Call, tried: list[Replica], failure: UpstreamError | None) -> Replica:
        """The replica to send to, waited for where all are busy or one is starting."""
        chosen = None if self.turns else self._choose(call, tried)
        if chosen is not None:
            self.metrics.queue.observe(0.0)
            return chosen
        if self.when_crowded is not None:
            self.when_crowded()
        started_s = asyncio.get_running_loop().time()
        try:
            return await self._waited(call, tried, failure)
        finally:
            waited_s = asyncio.get_running_loop().time() - started_s
            self.metrics.queue.observe(waited_s)
            if call.step is not None:
                call.step.queued_s += waited_s

    async def _waited(self, call: Call, tried: list[Replica], failure: UpstreamError | None) -> Replica:
        loop = asyncio.get_running_loop()
        give_up_s = min(call.deadline_s, loop.time() + self.limits.queue_s)
        woken = False
        while True:
            if not self._hope(tried, loop.time()):
                self.turns.wake()
                raise self._failed(failure) if failure else StageFailed(self.name, "no-replica")
            if not woken and len(self.turns) >= self.limits.max_queue:
                raise Overloaded(self.name, self.retry_after_s)
            woken = await self.turns.wait(give_up_s, in_front=woken)
            # Who has waited takes what there is: a replica that failed a moment ago may be the one with room.
            chosen = self._choose(call, [])
            if chosen is not None:
                self.turns.wake()
                return chosen
            if not woken:
                late = loop.time() + TICK_S >= call.deadline_s
                raise (
                    StageFailed(self.name, "deadline") if late else Overloaded(self.name, self.retry_after_s)
                )

    @property
    def ready(self) -> bool:
        now_s = asyncio.get_running_loop().time()
        return any(replica.usable(now_s) for replica in self.replicas)

    @property
    def retry_after_s(self) -> int:
        """When the queue will have moved on, by how long answers took of late; 1 to 60."""
        capacity = sum(r.max_concurrency for r in self.replicas if r.state == "ready") or 1
        return max(1, min(60, math.ceil(len(self.turns) * self.typical_s / capacity)))

    def _choose(self, call: Call, tried: list[Replica]) -> Replica | None:
        now_s = asyncio.get_running_loop().time()
        candidates = [
            r for r in self.replicas if r.running < r.max_concurrency and r.usable(now_s) and r not in tried
        ]
        if not candidates:
            return None
        return candidates[self.balancer.choose(candidates, call.tokens, call.prefix)]

    def _hope(self, tried: list[Replica], now_s: float) -> bool:
        """Whether waiting can help: some replica is busy, or starting."""
        return any(r.state == "starting" or (r.usable(now_s) and r not in tried) for r in self.replicas)

    def _failed(self, failure: UpstreamError) -> StageFailed:
        if failure.kind == "busy":
            return Overloaded(self.name, self.retry_after_s)
        return StageFailed(self.name, failure.kind)


def _refuse(status: int) -> None:
    """Raises for a status that another replica may not give, and that the client has not caused."""
    if status in _BUSY:
        raise UpstreamError("busy", f"HTTP {status}")
    if status >= 500 or status < 400 or status in _MISCONFIGURED:
        raise UpstreamError("status", f"HTTP {status}")


def _balancer(settings: StageSettings) -> Balancer:
    match settings.balancing:
        case "round-robin":
            return SmoothRoundRobin()
        case "prefix":
            return PrefixAffinity()
    return LeastOutstanding()

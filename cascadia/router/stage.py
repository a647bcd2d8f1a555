"""One stage: requests wait for a replica, are sent to one, and to another where that fails before its answer began."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from time import monotonic
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from msgspec import Struct

from cascadia.clients.upstream_connection import TICK_S, Connection
from cascadia.clients.upstream_errors import UpstreamError
from cascadia.dispatch.candidate import Balancer
from cascadia.dispatch.least_outstanding import LeastOutstanding
from cascadia.dispatch.prefix_affinity import PrefixAffinity
from cascadia.dispatch.round_robin import SmoothRoundRobin
from cascadia.router.admission import Admission
from cascadia.router.answers import EVENTS
from cascadia.router.breaker import RetryBudget
from cascadia.router.failures import StageFailed
from cascadia.router.hedging import SOONEST_S, Hedge, Quantile, raced
from cascadia.router.metrics import StageMetrics
from cascadia.router.replica import Call, Replica
from cascadia.router.resolved import name_at
from cascadia.router.settings import Limits, StageSettings
from cascadia.router.turns import Turns
from cascadia.router.wire import JSON, header_lines, status_line

T = TypeVar("T")
A = TypeVar("A")
Done = Callable[[bool | None], None]
"""Ends a request at its replica: True where that did well, None where it cannot be told."""
Attempt = Callable[[Replica, Done], Coroutine[Any, Any, A]]

_MISCONFIGURED = frozenset({401, 403, 404, 405})
"""Not the client's doing: key, model and path of what an engine gets are the router's."""
_BUSY = frozenset({408, 409, 425, 429})
MISSING = frozenset({404, 405})
"""Not here, be it what was asked for or the path."""
_FREE = frozenset({"connect", "busy", "elsewhere"})
"""What adds no load to have asked: it is no try."""
_GONE = _FREE | {"reset", "unhealthy"}
"""What needs no budget to be sent again."""


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

    def __init__(self, replica: Replica, connection: Connection, done: Done) -> None:
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


class Begun(Struct, frozen=True):
    """A first try: `connection` has what comes of it, None where there is none yet. `done` ends it."""

    replica: Replica
    connection: Connection | None
    done: Done
    started_s: float

    @property
    def stale(self) -> bool:
        """Whether all that was wrong is the connection, which was kept for too long."""
        return self.connection is not None and self.connection.stale


class Stage:
    """`settings.replicas` in order; `metrics` of this stage."""

    def __init__(self, settings: StageSettings, limits: Limits, metrics: StageMetrics) -> None:
        self.name = settings.name
        # A plan's names are anyone's: what may not stand in a header is written as %XX.
        self.header = (b"x-cascadia-stage", quote(settings.name, safe=" /:@!$&'()*+,;=~").encode("ascii"))
        self.head = status_line(200) + header_lines([JSON, self.header])
        """Of its answers as they are."""
        self.settings = settings
        self.limits = limits
        self.metrics = metrics
        replicas = [
            Replica(
                name_at(settings.name, r.url, r.address) if r.address else f"{settings.name}-{i}", r, limits
            )
            for i, r in enumerate(settings.replicas)
        ]
        self.admission = Admission(settings.name, replicas, _balancer(settings), limits)
        self.budget = RetryBudget(limits.retry_ratio)
        self.hedge = Hedge(settings.hedge) if settings.hedge else None

    def told(self, priority: int) -> dict[str, Any]:
        """What its engines are told beside the request."""
        return {"priority": priority} if priority and self.settings.passes_priority else {}

    def inherit(self, old: "Stage") -> None:
        """Goes on where `old`, the same stage under an older plan, is: its replicas, its queue, what it has learnt."""
        admission = old.admission
        admission.limits = self.limits
        if self.settings.balancing != old.settings.balancing:
            admission.balancer = self.admission.balancer
        self.admission = admission
        self.budget.saved = old.budget.saved
        if self.settings.hedge == old.settings.hedge:
            self.hedge = old.hedge
        # There may be more room than before.
        self.turns.wake()

    def begin_at_once(self, call: Call, then: Callable[[Connection], None]) -> Begun | None:
        """A first try for which nobody has to wait; None where there is none.

        `then` is called at the end of its exchange, be it good or bad; `buffered` makes an answer of either.
        """
        admission = self.admission
        replica = None if admission.turns or self.hedge else admission.free(call, ())
        if replica is None:
            return None
        connection = replica.pool.take()
        if connection is not None:
            try:
                request, left_s = replica.request(call), self._left_s(call)
                replica.send(connection, request, self.limits.first_byte_s, left_s, then)
            except UpstreamError:
                replica.pool.release(connection)
                connection = None
        self.metrics.queue.observe(0.0)
        step = call.step
        if step is not None:
            step.tries += 1
            step.replica = replica.name
        return Begun(replica, connection, self._given(replica, call), monotonic())

    def ended_well(self, begun: Begun, read: Callable[[bytes, bytes], T]) -> tuple[T, bytes] | None:
        """What `read` found in the answer of such a try, and its body; None where `buffered` must go on with it."""
        connection = begun.connection
        if connection is None or connection.failed or connection.status != 200:
            return None
        body = connection.answer()
        try:
            found = read(connection.content_type, body)
        except UpstreamError:
            return None
        begun.replica.pool.release(connection)
        self.budget.earn()
        self.admission.took(monotonic() - begun.started_s)
        begun.done(True)
        return found, body

    def drop(self, begun: Begun) -> None:
        """Nobody waits for it any more."""
        if begun.connection is not None:
            begun.replica.pool.release(begun.connection)
        begun.done(False if self._slow(begun.started_s) else None)

    async def buffered(
        self, call: Call, read: Callable[[bytes, bytes], T], begun: Begun | None = None
    ) -> Reply[T]:
        """The whole answer. `read` is given content type and body of a 200 and raises `UpstreamError` where they are
        no answer. `begun` is the first try, where there is one. Raises `StageFailed`, `Overloaded` among them."""
        first = begun
        asked: list[Replica] = []

        async def attempt(replica: Replica, done: Done) -> Reply[T]:
            started_s = monotonic()
            asked.append(replica)
            nonlocal first
            # Its connection is somebody else's after that.
            taken, first = first, None
            connection = await self._begin(replica, call, taken)
            try:
                connection.hold(self.limits.idle_s, parts=connection.content_type.startswith(EVENTS))
                body = await connection.whole()
            finally:
                replica.pool.release(connection)
            status = connection.status
            found: T | None = None
            if status == 200:
                found = read(connection.content_type, body)
                self.admission.took(monotonic() - started_s)
            elif self._lacks(replica, connection.status, call):
                self._look_elsewhere(asked)
                done(None)
            else:
                _refuse(connection)
            done(True)
            first_at_s = connection.body_at_s if connection.content_type.startswith(EVENTS) else None
            return Reply(status, connection.content_type, body, found, first_at_s)

        return await self._persist(call, attempt, self.hedge.whole if self.hedge else None, _forget, begun)

    async def opened(self, call: Call) -> Live:
        """An answer whose first part has come. Raises `StageFailed`."""
        asked: list[Replica] = []

        async def attempt(replica: Replica, done: Done) -> Live:
            asked.append(replica)
            connection = await self._begin(replica, call)
            live = Live(replica, connection, done)
            try:
                if connection.status != 200:
                    connection.hold(self.limits.idle_s, parts=False)
                    body = await connection.whole()
                    if self._lacks(replica, connection.status, call):
                        self._look_elsewhere(asked)
                        done(None)
                    else:
                        _refuse(connection)
                    live.reply = Reply(connection.status, connection.content_type, body)
                else:
                    if not connection.content_type.startswith(EVENTS):
                        raise UpstreamError("unreadable", "no event stream")
                    connection.stream(self.limits.idle_s)
                    live.first = await connection.some()
                    if not live.first:
                        raise UpstreamError("unreadable", "an empty event stream")
            except BaseException:
                replica.pool.release(connection)
                raise
            return live

        return await self._persist(call, attempt, self.hedge.first if self.hedge else None, _close)

    def _lacks(self, replica: Replica, status: int, call: Call) -> bool:
        """Whether it does well and does not have what is asked for: what another engine keeps, or an API that it never
        had. The same status at a path where it has done well says that something is wrong with it."""
        return status in MISSING and (call.kept or bool(replica.served and call.path not in replica.served))

    def _look_elsewhere(self, asked: list[Replica]) -> None:
        """Raises where there is a replica that has not been `asked`; else the client may be told."""
        now_s = monotonic()
        if any(replica not in asked and replica.usable(now_s) for replica in self.replicas):
            raise UpstreamError("elsewhere")

    async def _begin(self, replica: Replica, call: Call, begun: Begun | None = None) -> Connection:
        if begun is not None and begun.connection is not None:
            return begun.connection
        return await replica.begin(replica.request(call), self.limits.first_byte_s, self._left_s(call))

    def _left_s(self, call: Call) -> float:
        left_s = call.deadline_s - monotonic()
        if left_s <= 0:
            raise UpstreamError("total")
        return min(left_s, self.limits.total_s)

    async def _persist(
        self,
        call: Call,
        attempt: Attempt[A],
        usual: Quantile | None,
        drop: Callable[[A], None],
        begun: Begun | None = None,
    ) -> A:
        """`attempt` on one replica after another. `usual`: how long it takes, where hedging is on."""
        self.budget.earn()
        give_up_s = monotonic() + self.limits.queue_s
        tried: list[Replica] = []
        failure: UpstreamError | None = None
        tries = 0
        while True:
            try:
                if begun is not None and not tried:
                    replica = begun.replica
                else:
                    replica = await self._replica(call, tried, give_up_s)
            except StageFailed as error:
                if failure is None or error.kind != "no-replica":
                    raise
                raise self._failed(failure) from None
            try:
                if begun is not None and not tried:
                    return await self._once(call, replica, attempt, begun)
                if usual is None or self.hedge is None:
                    return await self._once(call, replica, attempt)
                return await self._hedged(call, replica, tried, attempt, usual, drop)
            except UpstreamError as error:
                failure = error
                tried.append(replica)
                # A replica that is gone has done none of the work: to send it again adds no load.
                tries += error.kind not in _FREE
                if tries >= self.limits.max_tries or not (error.kind in _GONE or self.budget.take()):
                    raise self._failed(failure) from None

    async def _replica(self, call: Call, tried: list[Replica], give_up_s: float) -> Replica:
        """As `admission` has it; how long that took is counted, and told to the call's step."""
        started_s = monotonic()
        try:
            return await self.admission.replica(call, tried, give_up_s)
        finally:
            waited_s = monotonic() - started_s
            self.metrics.queue.observe(waited_s)
            if call.step is not None:
                call.step.queued_s += waited_s

    async def _once(self, call: Call, replica: Replica, attempt: Attempt[A], begun: Begun | None = None) -> A:
        """One exchange, and what it says about the replica."""
        loop = asyncio.get_running_loop()
        started_s = begun.started_s if begun else monotonic()
        done = begun.done if begun else self._given(replica, call)
        step = call.step
        if step is not None and begun is None:
            step.tries += 1
            step.replica = replica.name
        try:
            found = await attempt(replica, done)
            if step is not None:
                # Of two that were asked at the same time, the one that answered.
                step.replica = replica.name
            return found
        except UpstreamError as error:
            if error.kind == "busy":
                replica.rest(monotonic(), error.after_s)
                # A tick later: a timer may ring early, and who looks then waits for ever.
                loop.call_at(replica.rests_until_s + TICK_S, self.turns.wake)
            # Past the request's own deadline nobody is to blame; a full engine is busy, not broken.
            late = error.kind in ("total", "first-byte") and monotonic() + TICK_S >= call.deadline_s
            done(
                None if error.kind in ("busy", "elsewhere") or (late and not self._slow(started_s)) else False
            )
            self.metrics.upstream_error(error.kind)
            if late:
                raise StageFailed(self.name, "deadline") from None
            raise
        except BaseException:
            done(False if self._slow(started_s) else None)
            raise

    async def _hedged(
        self,
        call: Call,
        replica: Replica,
        tried: list[Replica],
        attempt: Attempt[A],
        usual: Quantile,
        drop: Callable[[A], None],
    ) -> A:
        assert self.hedge is not None
        budget = self.hedge.budget
        budget.earn()
        started_s, after_s = monotonic(), usual.value_s

        def second() -> Awaitable[A] | None:
            # Where others wait a replica has better to do.
            other = None if self.turns else self.admission.free(call, [replica, *tried])
            if other is None or not budget.take():
                return None
            self.metrics.hedged("sent")
            return self._once(call, other, attempt)

        if after_s is None:
            found = await self._once(call, replica, attempt)
        else:
            found, won = await raced(
                self._once(call, replica, attempt), max(after_s, SOONEST_S), second, drop
            )
            if won:
                self.metrics.hedged("won")
        usual.seen(monotonic() - started_s)
        return found

    def _given(self, replica: Replica, call: Call) -> "Done":
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
                replica.served.add(call.path)
                replica.rest_s = 0.0
                replica.breaker.succeeded()
            elif ok is None:
                replica.breaker.abandoned(probe)
            else:
                replica.breaker.failed(monotonic(), probe)
            self.admission.ended()

        return done

    def _slow(self, started_s: float) -> bool:
        """Whether what began at `started_s` has taken so long that it is the engine's failure, whoever gave it up."""
        slow_s = self.settings.slow_s
        return slow_s is not None and monotonic() - started_s >= slow_s

    @property
    def replicas(self) -> list[Replica]:
        return self.admission.replicas

    @property
    def turns(self) -> Turns:
        return self.admission.turns

    @property
    def typical_s(self) -> float:
        """How long whole answers took of late."""
        return self.admission.typical_s

    @typical_s.setter
    def typical_s(self, seconds: float) -> None:
        self.admission.typical_s = seconds

    @property
    def ready(self) -> bool:
        now_s = monotonic()
        return any(replica.usable(now_s) for replica in self.replicas)

    def _failed(self, failure: UpstreamError) -> StageFailed:
        return self.admission.overloaded if failure.kind == "busy" else StageFailed(self.name, failure.kind)


def _forget(reply: Reply[Any]) -> None:
    """A whole answer that nobody needs holds nothing."""


def _close(live: Live) -> None:
    live.close(None)


def _refuse(connection: Connection) -> None:
    """Raises for a status that another replica may not give, and that the client has not caused."""
    status = connection.status
    if status in _BUSY:
        after = connection.retry_after
        raise UpstreamError("busy", f"HTTP {status}", after_s=int(after) if after.isdigit() else None)
    if status >= 500 or status < 400 or status in _MISCONFIGURED:
        raise UpstreamError("status", f"HTTP {status}")


def _balancer(settings: StageSettings) -> Balancer:
    match settings.balancing:
        case "round-robin":
            return SmoothRoundRobin()
        case "prefix":
            return PrefixAffinity()
    return LeastOutstanding()

"""A request is tried on one replica of its stage after another, until one answers or nothing more may be tried.

What each try says about its replica is told to the replica's breaker; what all of them cost is kept within budgets.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from time import monotonic
from typing import Any, TypeVar

from msgspec import Struct

from cascadia.dispatch.latency_model import load_of
from cascadia.router.openai.bounded import LONG_BYTES
from cascadia.router.openai.errors import StageFailed
from cascadia.router.openai.texts import tells_of_media
from cascadia.router.replicas.admission import Admission
from cascadia.router.replicas.breaker import RetryBudget
from cascadia.router.replicas.hedging import SOONEST_S, Hedge, Quantile, raced
from cascadia.router.replicas.replica import Call, Replica
from cascadia.router.replicas.results import Done
from cascadia.router.settings.model import Limits, StageSettings
from cascadia.router.telemetry.metrics import StageMetrics
from cascadia.router.telemetry.stage_record import Tried
from cascadia.router.upstream.connection import Connection
from cascadia.router.upstream.deadlines import TICK_S
from cascadia.router.upstream.errors import NOT_CONNECTED, Kind, UpstreamError
from cascadia.router.upstream.said import Said

A = TypeVar("A")
Attempt = Callable[[Replica, Done], Coroutine[Any, Any, A]]

_FREE = NOT_CONNECTED | {"busy", "elsewhere"}
"""What adds no load to have asked: it is no try."""
_GONE = _FREE | {"reset", "unhealthy"}
"""What needs no budget to be sent again."""


_BLAMELESS = frozenset({"busy", "elsewhere", "exhausted", "forbidden", "too-large"})
"""What does not say that anything is wrong with the replica: the request may have asked for it."""


class Begun(Struct, eq=False):
    """A try: a request of about so many `tokens` and this `load`, counted to its replica until `done`.

    `probe`: its breaker looks at what becomes of it. `connection` has what comes of a first try that was sent at once.
    """

    admission: Admission
    replica: Replica
    path: bytes
    tokens: int
    load: float
    probe: bool
    started_s: float
    connection: Connection | None = None
    ended: bool = False

    @property
    def stale(self) -> bool:
        """Tells whether all that was wrong is the connection, which was kept for too long."""
        return self.connection is not None and self.connection.stale

    def done(self, ok: bool | None) -> None:
        """Ends it, once. `ok`: whether the replica did well; None where it cannot be told."""
        if self.ended:
            return
        self.ended = True
        replica = self.replica
        replica.running -= 1
        replica.outstanding_tokens -= self.tokens
        replica.load -= self.load
        if ok:
            replica.served.add(self.path)
            replica.rest_s = 0.0
            breaker = replica.breaker
            if breaker.failures or breaker.probing:
                breaker.succeeded()
        elif ok is None:
            replica.breaker.abandoned(self.probe)
        else:
            replica.breaker.failed(monotonic(), self.probe)
        self.admission.ended()


class Attempts:
    """Tries of one stage's requests, under its settings and limits."""

    def __init__(
        self, settings: StageSettings, limits: Limits, metrics: StageMetrics, admission: Admission
    ) -> None:
        self.name = settings.name
        self.settings = settings
        self.limits = limits
        self.metrics = metrics
        self.admission = admission
        self.budget = RetryBudget(limits.retry_ratio)
        self.hedge = Hedge(settings.hedge) if settings.hedge else None

    def inherit(self, old: "Attempts") -> None:
        """Goes on where `old`, those of the same stage under an older plan, are."""
        self.admission = old.admission
        # A reload in the middle of an outage must not pay out retries anew.
        self.budget.saved = old.budget.saved
        if self.settings.hedge == old.settings.hedge:
            self.hedge = old.hedge

    async def persist(
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
        # No more of a failure than its kind and words: the error would hold this frame, and it the request.
        failure: Kind | None = None
        said: Said | None = None
        tries = resets = 0
        while True:
            try:
                if begun is not None and not tried:
                    replica = begun.replica
                else:
                    replica = await self._replica(call, tried, give_up_s)
            except StageFailed as error:
                if failure is None or error.kind != "no-replica":
                    raise
                raise self._gave_up(failure, said) from None
            try:
                if begun is not None and not tried:
                    return await self._once(call, replica, attempt, begun)
                if usual is None or self.hedge is None:
                    return await self._once(call, replica, attempt)
                return await self._hedged(call, replica, tried, attempt, usual, drop)
            except UpstreamError as error:
                failure, said = error.kind, error.said
                tried.append(replica)
                # A replica that is gone has done none of the work: to send it again adds no load.
                tries += error.kind not in _FREE
                resets += error.kind == "reset"
                if (
                    resets >= call.resets_max
                    or tries >= self.limits.max_tries
                    or not (error.kind in _GONE or self.budget.take())
                ):
                    raise self._gave_up(failure, said) from None

    async def _replica(self, call: Call, tried: list[Replica], give_up_s: float) -> Replica:
        """Replica as `admission` has it; the wait is counted, and told to the call's step."""
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
        step = call.step
        if begun is None:
            now_s = monotonic()
            if now_s + TICK_S >= call.deadline_s:
                # No engine is asked for what nobody waits for any more: it is no try. A timer may ring early.
                raise StageFailed(self.name, "deadline")
            begun = self.given(replica, call, now_s)
            if step is not None:
                step.tries += 1
                step.replica = replica.name
        started_s, done = begun.started_s, begun.done
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
                loop.call_at(replica.rests_until_s + TICK_S, self.admission.wait_queue.wake)
            # Past the request's own deadline nobody is to blame; a full engine is busy, not broken.
            slower = error.kind in ("total", "first-byte")
            late = slower and monotonic() + TICK_S >= call.deadline_s
            if slower:
                self.admission.times.outlasted(monotonic() - started_s)
            # Engines fail at pictures that they cannot read, and would be closed to all for it.
            unread = error.kind == "status" and tells_of_media(call.body[:LONG_BYTES])
            blameless = error.kind in _BLAMELESS or unread or (late and not self.slow(started_s))
            done(None if blameless else False)
            self.metrics.upstream_error(error.kind)
            if step is not None and error.said is not None:
                step.said = error.said.log
            if error.kind == "exhausted":
                # What this process has none of for one replica it has none of for another.
                raise StageFailed(self.name, "exhausted") from None
            if late:
                raise StageFailed(self.name, "deadline") from None
            raise
        except BaseException:
            done(False if self.slow(started_s) else None)
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
        beside: list[Replica] = []

        def second() -> Awaitable[A] | None:
            # Where others wait a replica has better to do.
            other = None if self.admission.wait_queue else self.admission.free(call, [replica, *tried])
            if other is None or not budget.take():
                return None
            self.metrics.hedged("sent")
            beside.append(other)
            return self._once(call, other, attempt)

        if after_s is None:
            found = await self._once(call, replica, attempt)
        else:
            try:
                found, won = await raced(
                    self._once(call, replica, attempt), max(after_s, SOONEST_S), second, drop
                )
            except UpstreamError:
                # Both have failed: neither is asked again.
                tried += beside
                raise
            if won:
                self.metrics.hedged("won")
        # From the first try's beginning: the second's own time alone would teach ever shorter waits.
        usual.seen(monotonic() - started_s)
        return found

    def given(self, replica: Replica, call: Call, now_s: float) -> Begun:
        """Counts the request to `replica`; `done` of what is returned ends that, and tells its breaker."""
        admission = self.admission
        tokens, timed = admission.tokens(call), admission.timed
        step = call.step
        if step is not None:
            step.answers, step.most_output = call.answers, call.most_output
        if timed is not None and step is not None:
            step.tried = Tried(timed.given(replica, admission.asked(call), now_s), replica.name, now_s)
        load = load_of(call.answers, tokens)
        replica.running += 1
        replica.outstanding_tokens += tokens
        replica.load += load
        if replica.window is not None and (until_s := replica.window.send(now_s)):
            replica.rests_until_s = max(replica.rests_until_s, until_s)
            # A tick later: a timer may ring early, and who looks then waits for ever.
            asyncio.get_running_loop().call_at(until_s + TICK_S, admission.wait_queue.wake)
        probe = replica.breaker.failures > 0 and replica.breaker.begin()
        return Begun(admission, replica, call.path, tokens, load, probe=probe, started_s=now_s)

    def slow(self, started_s: float) -> bool:
        """Tells whether what began at `started_s` has taken so long that it is the engine's failure, whoever gave
        it up.
        """
        slow_s = self.settings.slow_s
        return slow_s is not None and monotonic() - started_s >= slow_s

    def _gave_up(self, failure: Kind, said: Said | None) -> StageFailed:
        if failure == "busy":
            return self.admission.overloaded
        return StageFailed(self.name, failure, said)

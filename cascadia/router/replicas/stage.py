"""One stage: requests wait for a replica, are sent to one, and to another where that fails before its answer began."""

import math
import random
import re
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from msgspec import structs

from cascadia.clients.engines.held_bytes import HeldBytes
from cascadia.dispatch.candidate import Balancer
from cascadia.dispatch.earliest_finish import EarliestFinish
from cascadia.dispatch.latency_model import Coefficients, LatencyModel
from cascadia.dispatch.least_outstanding import LeastOutstanding
from cascadia.dispatch.prefix_affinity import PrefixAffinity
from cascadia.dispatch.round_robin import SmoothRoundRobin
from cascadia.exits.certify import Promise
from cascadia.exits.length import Certified, Fixed
from cascadia.router.http.wire import JSON, header_lines, status_line
from cascadia.router.openai.answers import EVENTS, Usage
from cascadia.router.openai.bounded import LONG_BYTES
from cascadia.router.openai.requests import TOKENIZERS, without_usage
from cascadia.router.replicas.admission import Admission
from cascadia.router.replicas.attempts import Attempts, Begun
from cascadia.router.replicas.dns_names import name_at
from cascadia.router.replicas.replica import Call, Replica, kind_of
from cascadia.router.replicas.results import MISSING, Done, Live, Reader, Reply, refuse, refuse_status
from cascadia.router.replicas.wait_queue import WaitQueue
from cascadia.router.settings.model import Limits, StageSettings
from cascadia.router.telemetry.metrics import StageMetrics
from cascadia.router.telemetry.stage_record import Step
from cascadia.router.upstream.connection import Connection
from cascadia.router.upstream.deadlines import TICK_S
from cascadia.router.upstream.errors import UpstreamError
from cascadia.router.upstream.told_failure import ToldFailure, beginning_of, told_failure

T = TypeVar("T")
JSON_TYPE = b"application/json"
_stream_options = re.compile(b"stream_options").search

LIMITS = {"chat": "max_tokens", "completions": "max_tokens", "responses": "max_output_tokens"}
"""What each API calls the most tokens of an answer; embeddings have none."""


BELIEVED_TOKENS = 4096
"""Of an answer, however soon it was there: a cache in front of an engine has none to write."""
REFUSAL_S = 1.0
"""For the rest of a refusal whose head is here, in place of a stream."""
MOST_TOKENS_S = 10_000
"""Tokens a second that no engine writes of one answer."""


class Limited(Protocol):
    """A request, as far as it says how long its answer may be."""

    @property
    def output_limit(self) -> int | None: ...


class Stage:
    """`settings.replicas` in order; `metrics` of this stage. `held` counts the bytes of answers that are held back."""

    def __init__(
        self, settings: StageSettings, limits: Limits, metrics: StageMetrics, held: HeldBytes
    ) -> None:
        names = [
            name_at(settings.name, r.url, r.address) if r.address else f"{settings.name}-{i}"
            for i, r in enumerate(settings.replicas)
        ]
        replicas = [Replica(*each, limits, held) for each in zip(names, settings.replicas, strict=True)]
        admission = Admission(settings.name, replicas, _balancer(settings), limits)
        admission.latency_max_s = settings.latency_max_s
        self.name = settings.name
        self.settings = settings
        self.limits = limits
        self.metrics = metrics
        self.admission = admission
        self.attempts = Attempts(settings, limits, metrics, admission)
        self.exits = _exits(settings)
        self.tells = settings.passes_priority or settings.max_tokens is not None
        """Whether `told` is ever anything."""
        self.refuses_usage = False
        """Whether its engines were found to refuse `stream_options`, and to serve streams without."""
        # A plan's names are anyone's: what may not stand in a header is written as %XX.
        self.header = (b"x-cascadia-stage", quote(settings.name, safe=" /:@!$&'()*+,;=~").encode("ascii"))
        self.head = status_line(200) + header_lines([JSON, self.header])
        """Of its answers as they are."""

    def told(self, priority: int, fields: Limited, api: str, prompt_tokens: int) -> dict[str, Any]:
        """Fields that its engines are told beside the request: its priority, and a limit on its answer where it sets
        none. A limit that may not fit beside the prompt is left out: engines refuse what exceeds their context."""
        settings, most = self.settings, self.settings.max_tokens
        changes: dict[str, Any] = {}
        if priority and settings.passes_priority:
            changes["priority"] = priority
        if most is not None and api in LIMITS and fields.output_limit is None:
            fits = 2 * prompt_tokens + most <= (settings.max_model_len or math.inf)
            # Twice, as a prompt's tokens are estimated from its bytes.
            changes |= {LIMITS[api]: most} if fits else {}
        return changes

    def inherit(self, old: "Stage") -> None:
        """Goes on where `old`, the same stage under an older plan, is: its replicas, its queue, what it has learnt."""
        admission = old.admission
        admission.limits = self.limits
        if self.settings.balancing != old.settings.balancing:
            admission.balanced_by(self.admission.timed or self.admission.balancer)
        elif admission.timed is not None and self.admission.timed is not None:
            admission.timed.told(self.admission.timed.models)
        admission.latency_max_s = self.settings.latency_max_s
        self.admission = admission
        self.attempts.inherit(old.attempts)
        if _promised(self.settings) == _promised(old.settings):
            self.exits = old.exits
        # There may be more room than before.
        self.wait_queue.wake()

    def begin_at_once(self, call: Call, then: Callable[[Connection], None]) -> Begun | None:
        """A first try for which nobody has to wait; None where there is none.

        `then` is called at the end of its exchange, be it good or bad; `buffered` makes an answer of either.
        """
        admission = self.admission
        if admission.wait_queue.tickets or self.attempts.hedge:
            return None
        replica = admission.free(call, ())
        if replica is None:
            return None
        now_s = monotonic()
        left_s = call.deadline_s - now_s
        if left_s <= TICK_S:
            return None
        connection = replica.pool.take()
        if connection is not None:
            limits = self.limits
            total_s = left_s if left_s < limits.total_s else limits.total_s
            request, most_bytes = replica.request(call), limits.max_answer_bytes
            try:
                connection.send(request, limits.first_byte_s, total_s, most_bytes, limits.idle_s, then)
            except UpstreamError:
                replica.pool.release(connection)
                connection = None
        begun = self.attempts.given(replica, call, now_s)
        begun.connection = connection
        self.metrics.queue.observe_none()
        step = call.step
        if step is not None:
            step.tries += 1
            step.replica = replica.name
        return begun

    def _took(self, path: bytes, started_s: float) -> None:
        """Notes how long an answer took, unless no model has worked for it."""
        if path not in TOKENIZERS:
            self.admission.times.took(monotonic() - started_s)

    def ended_well(self, begun: Begun, read: Callable[[bytes, bytes], T]) -> tuple[T, bytes] | None:
        """Finding of `read` in the answer of such a try, and its body; None where `buffered` must go on with
        it.
        """
        connection = begun.connection
        if connection is None:
            return None
        answer = connection.answer
        if answer.error is not None or answer.status != 200:
            return None
        body = connection.body.held
        if len(body) > LONG_BYTES:
            # To read through it is a turn of the event loop, to send it another.
            return None
        try:
            found = read(answer.content_type, body)
        except UpstreamError:
            return None
        begun.replica.pool.release(connection)
        budget = self.attempts.budget
        if budget.saved < budget.most:
            budget.earn()
        self._took(begun.path, begun.started_s)
        begun.done(True)
        return found, body

    def counted(self, usage: Usage, step: Step | None = None) -> None:
        """Counts what one of its answers took, by the engine's own count; it is learnt from, if `step` was its turn."""
        self.metered(usage)
        self.learn(step, usage.output_tokens)

    def metered(self, usage: Usage) -> None:
        """Counts as much without learning from it: more of the same answer may come."""
        metrics = self.metrics
        metrics.input_tokens.value += usage.input_tokens
        metrics.output_tokens.value += usage.output_tokens

    def learn(self, step: Step | None, written: int) -> None:
        """An answer of so many tokens is there now, be it by the engine's count or by estimate; of none nothing is
        learnt."""
        if not written:
            return
        admission = self.admission
        answers = 1 if step is None else step.answers
        written = self._possible(step, written)
        admission.length.seen(round(written / answers))
        timed, tried = admission.timed, None if step is None else step.tried
        # Of two that were asked at the same time, what is known is the later one's.
        if timed is None or step is None or tried is None or tried.replica != step.replica:
            return
        timed.ended(tried.trial, written, monotonic() - tried.since_s)

    def _possible(self, step: Step | None, written: int) -> int:
        """Tokens of `written` that an engine can have written: others' choices must not rest on one that cannot count.

        No more than were asked for and fit into its context, nor faster than any engine writes.
        """
        if written <= BELIEVED_TOKENS:
            return written
        seconds = 0.0 if step is None else monotonic() - step.started_at_s
        bounds = [max(BELIEVED_TOKENS, round(MOST_TOKENS_S * seconds))]
        bounds += [] if self.settings.max_model_len is None else [self.settings.max_model_len]
        bounds += [] if step is None or step.most_output is None else [step.most_output]
        return min(written, min(bounds) * (1 if step is None else step.answers))

    def drop(self, begun: Begun) -> None:
        """Drops an answer that nobody waits for any more."""
        if begun.connection is not None:
            begun.replica.pool.release(begun.connection)
        begun.done(False if self.attempts.slow(begun.started_s) else None)

    async def buffered(self, call: Call, read: Reader[T], begun: Begun | None = None) -> Reply[T]:
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
                connection.hold(self.limits.idle_s, parts=connection.answer.content_type.startswith(EVENTS))
                body = await connection.whole()
            finally:
                replica.pool.release(connection)
            status, content_type = connection.answer.status, connection.answer.content_type
            found: T | None = None
            if status == 200:
                try:
                    found = await read(content_type, body)
                except ToldFailure as told:
                    status = refuse_status(told.status, b"", told.body, replica.api_key)
                    content_type, body = JSON_TYPE, told.body
                else:
                    self._took(call.path, started_s)
            elif self._lacks(replica, connection.answer.status, call):
                self._look_elsewhere(asked)
                done(None)
            else:
                status = refuse(connection, body, replica.api_key)
            done(True)
            first_at_s = connection.answer.body_at_s if content_type.startswith(EVENTS) else None
            return Reply(status, content_type, body, found, first_at_s)

        hedge = self.attempts.hedge
        reply = await self.attempts.persist(call, attempt, hedge.whole if hedge else None, _forget, begun)
        if reply.found is None and _refused_for_usage(call, reply):
            reply = await self.buffered(_without_usage(call), read)
            self.refuses_usage |= reply.found is not None
        return reply

    async def opened(self, call: Call) -> Live:
        """An answer whose first part has come. Raises `StageFailed`."""
        asked: list[Replica] = []

        async def attempt(replica: Replica, done: Done) -> Live:
            started_s = monotonic()
            asked.append(replica)
            connection = await self._begin(replica, call)
            live = Live(replica, connection, done, started_s=started_s, deadline_s=call.deadline_s)
            try:
                if connection.answer.status != 200:
                    connection.hold(self.limits.idle_s, parts=False)
                    body, status = await connection.whole(), connection.answer.status
                    if self._lacks(replica, status, call):
                        self._look_elsewhere(asked)
                        done(None)
                    else:
                        status = refuse(connection, body, replica.api_key)
                    live.reply = Reply(status, connection.answer.content_type, body)
                elif not connection.answer.content_type.startswith(EVENTS):
                    live.reply = await self._no_stream(replica, connection)
                else:
                    connection.stream(self.limits.idle_s)
                    live.first = await connection.some()
                    if not live.first:
                        raise UpstreamError("unreadable", "an empty event stream")
                    # Nothing has been sent on: another replica, or another stage, may still answer.
                    while (beginning := beginning_of(live.first)).open:
                        more = await connection.some()
                        if not more:
                            raise UpstreamError("unreadable", "an event stream that says nothing")
                        live.first += more
                    if (told := beginning.failure) is not None:
                        status = refuse_status(told.status, b"", told.body, replica.api_key)
                        live.reply = Reply(status, JSON_TYPE, told.body)
            except BaseException:
                replica.pool.release(connection)
                raise
            return live

        hedge = self.attempts.hedge
        live = await self.attempts.persist(call, attempt, hedge.first if hedge else None, _close)
        if live.reply is not None and _refused_for_usage(call, live.reply):
            live.close(True)
            live = await self.opened(_without_usage(call))
            self.refuses_usage |= live.reply is None
        return live

    async def _no_stream(self, replica: Replica, connection: Connection) -> Reply[None]:
        """A refusal that is told whole, within a 200, where a stream was asked for. Raises `UpstreamError` for all
        else."""
        told = None
        if connection.answer.content_type.startswith(JSON_TYPE):
            connection.hold(min(REFUSAL_S, self.limits.idle_s), parts=False)
            with suppress(UpstreamError):
                told = told_failure(await connection.whole())
        if told is None:
            raise UpstreamError("unreadable", "no event stream")
        return Reply(refuse_status(told.status, b"", told.body, replica.api_key), JSON_TYPE, told.body)

    def _lacks(self, replica: Replica, status: int, call: Call) -> bool:
        """Tells whether it does well and does not have what is asked for: what another engine keeps, or an API
        that it never had. The same status at a path where it has done well says that something is wrong with
        it.
        """
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

    @property
    def replicas(self) -> list[Replica]:
        return self.admission.replicas

    @property
    def wait_queue(self) -> WaitQueue:
        return self.admission.wait_queue

    @property
    def crowded(self) -> bool:
        """Tells whether a request would have to wait, or could not be served."""
        return self.admission.crowded

    @property
    def ready(self) -> bool:
        now_s = monotonic()
        return any(replica.usable(now_s) for replica in self.replicas)


def _refused_for_usage(call: Call, refused: Reply[Any]) -> bool:
    """Tells whether an engine refused what the router alone has asked for, by its words."""
    return call.adds_usage and _stream_options(refused.body, 0, LONG_BYTES) is not None


def _without_usage(call: Call) -> Call:
    return structs.replace(call, body=without_usage(call.body), adds_usage=False)


def _forget(reply: Reply[Any]) -> None:
    """A whole answer that nobody needs holds nothing."""


def _close(live: Live) -> None:
    live.close(None)


def _promised(settings: StageSettings) -> tuple[object, ...]:
    said = settings.ends_thinking, settings.ends_answer
    return settings.promise, said, settings.exits, settings.budget_field


def _exits(settings: StageSettings) -> Certified | Fixed:
    promise, thresholds = settings.promise, [each.threshold for each in settings.exits]
    if promise is None or not thresholds:
        return Fixed(thresholds)
    return Certified(thresholds, Promise(promise.risk, promise.confidence), promise.shadow)


def _balancer(settings: StageSettings) -> Balancer | EarliestFinish:
    match settings.balancing:
        case "round-robin":
            return SmoothRoundRobin()
        case "prefix":
            return PrefixAffinity()
    # Routers that begin at different places do not all choose the same replica first.
    least = LeastOutstanding(turn=random.randrange(len(settings.replicas) or 1))
    match settings.balancing:
        case "earliest-finish":
            return EarliestFinish(_models(settings), least=least)
        case "matching":
            from cascadia.dispatch.matching import Matching

            return Matching(_models(settings), least=least)
    return least


def _models(settings: StageSettings) -> dict[str, LatencyModel]:
    """Latency models of the kinds of replica that the plan has told of."""
    return {
        kind_of(replica): LatencyModel(Coefficients(*replica.latency), seeded=True)
        for replica in settings.replicas
        if replica.latency is not None
    }

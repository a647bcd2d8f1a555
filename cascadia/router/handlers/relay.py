"""An engine's stream, passed on part by part."""

import asyncio
import re
from time import monotonic

from cascadia.router.http.exchange import Exchange
from cascadia.router.http.wire import Headers
from cascadia.router.openai.answers import Usage
from cascadia.router.openai.bounded import SMALL_BYTES, slices, turn_after
from cascadia.router.openai.errors import StageFailed
from cascadia.router.openai.requests import Api
from cascadia.router.openai.responses import last_in, usage_told_in
from cascadia.router.openai.rewrite import Noting
from cascadia.router.openai.stream_usage import ToldUsage
from cascadia.router.openai.whole_events import WholeEvents
from cascadia.router.replicas.results import Live
from cascadia.router.replicas.stage import Stage
from cascadia.router.telemetry.stage_record import Step
from cascadia.router.upstream.deadlines import TICK_S
from cascadia.router.upstream.errors import UpstreamError
from cascadia.router.upstream.said import said
from cascadia.router.upstream.told_failure import ToldFailure, failed_response, last_failure

TAIL_BYTES = 2048
"""Of a stream, kept to see whether it ended as it should."""
_done = re.compile(rb"^data:[ \t]*\[DONE\]", re.MULTILINE).search
"""Not in an answer's own text, in whose JSON no line begins."""


async def relay(
    exchange: Exchange,
    api: Api,
    stage: Stage,
    *,
    live: Live,
    headers: Headers,
    noting: Noting | None,
    step: Step,
) -> None:
    """Passes the answer on until the engine's end. Breaks off with an error event where the engine does, after
    the last whole event.

    `step` is told when that was, and how many tokens came: the engine's own count where `noting` sees it or the stream
    ends with it, else an estimate by its events and texts.
    """
    passed = _Passed(exchange, noting, response=api == "responses")
    ok: bool | None = None
    try:
        exchange.begin_stream(headers)
        data = live.first
        while data:
            if not passed.at_once(data):
                # The engine is read no faster than the client reads: memory stays bounded, and the engine feels it.
                if exchange.behind:
                    await exchange.room()
                await passed.in_slices(data)
            data = await live.some(passed.at_once)
        rest = await passed.rest()
        if not passed.ended:
            raise UpstreamError("unreadable", "a stream without its end")
        # From here on the connection may serve another request, whatever becomes of this client.
        tail = bytes(passed.tail)
        told = passed.told if passed.response else last_failure(tail)
        ok = told is None or told.status < 500
        _told(step, stage, passed.usage, passed.events, exchange)
        if told is None:
            stage.admission.times.took(monotonic() - live.started_s)
        exchange.last_part(rest)
        if told is not None:
            step.ended("refused" if ok else "status")
            if not ok:
                # The client has it from the engine; log, metrics and breaker would else take it for an answer.
                words = said(told.status, told.body, None)
                step.said = words.log
                raise UpstreamError("status", said=words)
    except (UpstreamError, OverflowError) as error:
        # Not the error itself: it would hold this frame, which would hold it.
        kind = error.kind if isinstance(error, UpstreamError) else "too-large"
        late = kind == "total" and monotonic() + TICK_S >= live.deadline_s
        if kind == "total":
            stage.admission.times.outlasted(monotonic() - live.started_s)
        # Past the request's own deadline nobody is to blame.
        ok = None if late and not stage.attempts.slow(live.started_s) else False
        stage.metrics.upstream_error(kind)
        ended = "deadline" if late else kind
        step.ended(ended)
        raise StageFailed(stage.name, ended) from None
    finally:
        if step.answered_at_s is None:
            # Whoever cuts the stream before its usage comes has had what was written.
            _estimate(step, passed.events, exchange)
        live.close(ok)


class _Passed:
    """Parts of a stream that were passed on. `tail` is its end; `told` the failure that a response ends with."""

    __slots__ = (
        "_ended",
        "_events",
        "_exchange",
        "_noting",
        "_seen_bytes",
        "_usage",
        "_whole",
        "response",
        "tail",
        "told",
    )

    def __init__(self, exchange: Exchange, noting: Noting | None, *, response: bool) -> None:
        self._exchange = exchange
        self._noting = noting
        self.response = response
        self._ended = False
        self.told: ToldFailure | None = None
        self._usage = ToldUsage()
        self._events = self._seen_bytes = 0
        # A part may end within an event: half of one is held back, so that an error event after it can be read.
        self._whole = WholeEvents()
        self.tail = bytearray()

    def at_once(self, data: bytes) -> bool:
        """Passes a part on, if that keeps nobody waiting; else False."""
        exchange = self._exchange
        if exchange.behind or len(data) + len(self._whole) > SMALL_BYTES:
            return False
        out = self._read(self._taken(data))
        if out:
            exchange.part(out)
        return True

    async def in_slices(self, data: bytes) -> None:
        """Passes a part on, of which no more is read in one go than others can wait for."""
        whole = self._taken(data)
        await turn_after(whole)
        for piece in slices(whole):
            out = self._read(piece)
            await turn_after(piece)
            if out:
                self._exchange.part(out)
            await asyncio.sleep(0)

    async def rest(self) -> bytes:
        """What is left to pass on, now that nothing more comes: half of an event, which may be all there is."""
        found = []
        for piece in slices(self._whole.held):
            found.append(self._read(piece))
            await asyncio.sleep(0)
        if self._noting is not None:
            found.append(self._noting.rest())
        return b"".join(found)

    def _taken(self, data: bytes) -> bytes:
        """Whole events that are there with `data`."""
        whole = self._whole.part(data)
        reserved = self._exchange.reservation
        if reserved is not None:
            reserved.passed(whole)
        tail = self.tail
        tail += data
        # Cut at twice its size, not at each part: that would copy it as often.
        if len(tail) > 2 * TAIL_BYTES:
            self._look()
            del tail[:-TAIL_BYTES]
            self._seen_bytes = len(tail)
        return whole

    def _read(self, events: bytes) -> bytes:
        """Reads what whole events say of the stream itself; the events as they are passed on."""
        if self.response:
            self._read_response(events)
        else:
            self._usage.seen(events)
        return events if self._noting is None else self._noting.part(events)

    def _read_response(self, events: bytes) -> None:
        # A response ends with an event of its own, which holds all of it, or with one that says what failed.
        if not self._ended and (last := last_in(events)) is not None:
            self._ended, self.told = True, failed_response(b"data:" + last)
        if self._ended:
            self._usage.usage = usage_told_in(events) or self._usage.usage

    def _look(self) -> None:
        tail, since = self.tail, self._seen_bytes
        self._events += tail.count(b"data: {", since) + tail.count(b"data:{", since)
        self._seen_bytes = len(tail)

    @property
    def events(self) -> int:
        self._look()
        return self._events

    @property
    def usage(self) -> Usage | None:
        """As the engine told it; None where it did not."""
        return self._usage.usage

    @property
    def ended(self) -> bool:
        """Tells whether it ended as it should."""
        return self._ended if self.response else _done(self.tail) is not None


def _estimate(step: Step, parts: int, exchange: Exchange) -> None:
    """Notes the tokens of a stream that does not say: `parts` events, or by the length of a key's texts."""
    step.output_tokens = max(parts, 0 if exchange.reservation is None else exchange.reservation.written)


def _told(step: Step, stage: Stage, usage: Usage | None, parts: int, exchange: Exchange) -> None:
    """Notes an answer that came to its end. `usage` is its engine's, as the client got it where it asked for that."""
    step.answered_at_s = monotonic()
    if usage is None:
        _estimate(step, parts, exchange)
    else:
        step.used(*usage)
        stage.metered(usage)
    if step.counted and exchange.reservation is not None:
        exchange.reservation.counted(step.tokens)
    stage.learn(step, step.output_tokens)
    if step.tpot_s is not None:
        stage.metrics.tpot.observe(step.tpot_s)
    stage.metrics.seconds.observe(step.answered_at_s - step.started_at_s)
    step.ended("accepted")

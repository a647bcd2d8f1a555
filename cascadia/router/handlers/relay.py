"""An engine's stream, passed on part by part."""

import asyncio
from time import monotonic

from cascadia.router.http.exchange import Exchange
from cascadia.router.http.wire import Headers
from cascadia.router.openai.answers import DONE, usage_at_end
from cascadia.router.openai.bounded import SMALL_BYTES, slices
from cascadia.router.openai.errors import failed
from cascadia.router.openai.requests import Api
from cascadia.router.openai.responses import FAILED, FINAL
from cascadia.router.openai.rewrite import Noting
from cascadia.router.openai.whole_events import WholeEvents
from cascadia.router.replicas.results import Live
from cascadia.router.replicas.stage import Stage
from cascadia.router.telemetry.stage_record import Step
from cascadia.router.upstream.errors import UpstreamError

TAIL_BYTES = 2048
"""Of a stream, kept to see whether it ended as it should, and with which usage."""


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
    parts = 0
    # A response ends with an event of its own, which holds all of it, or with one that says what failed.
    response, ended = api == "responses", False
    ok: bool | None = None
    try:
        exchange.begin_stream(headers)
        data, tail, reserved = live.first, bytearray(), exchange.reservation
        # A part may end within an event: half of one is held back, so that an error event after it can be read.
        events = WholeEvents()
        while data:
            whole = events.part(data)
            if reserved is not None:
                reserved.passed(whole)
            # Rewriting a large part in one go would keep all other requests waiting.
            if noting is None or len(whole) <= SMALL_BYTES:
                out = noting.part(whole) if noting else whole
                if out:
                    exchange.part(out)
            else:
                for piece in slices(whole):
                    if out := noting.part(piece):
                        exchange.part(out)
                    await asyncio.sleep(0)
            # The engine is read no faster than the client reads: memory stays bounded, and the engine feels it.
            if exchange.behind:
                await exchange.room()
            tail += data
            if response and not ended:
                ended = any(end in tail for end in (*FINAL, *FAILED))
            parts += data.count(b"data: {") + data.count(b"data:{")
            # Cut at twice its size, not at each part: that would copy it as often.
            if len(tail) > 2 * TAIL_BYTES:
                del tail[:-TAIL_BYTES]
            data = await live.some()
        if not (ended if response else DONE in tail):
            raise UpstreamError("unreadable", "a stream without its end")
        # From here on the connection may serve another request, whatever becomes of this client.
        ok = True
        rest = noting.part(events.held) + noting.rest() if noting else events.held
        _told(step, stage, bytes(tail), parts, exchange)
        exchange.last_part(rest)
    except (UpstreamError, OverflowError) as error:
        why = error if isinstance(error, UpstreamError) else UpstreamError("too-large")
        ok = False
        step.ended(why.kind)
        stage.metrics.upstream_error(why.kind)
        raise failed(stage.name, why) from None
    finally:
        if step.answered_at_s is None and not step.counted:
            # Whoever cuts the stream before its usage comes has had what was written.
            _estimate(step, parts, exchange)
        live.close(ok)


def _estimate(step: Step, parts: int, exchange: Exchange) -> None:
    """Notes the tokens of a stream that does not say: `parts` events, or by the length of a key's texts."""
    step.output_tokens = max(parts, 0 if exchange.reservation is None else exchange.reservation.written)


def _told(step: Step, stage: Stage, tail: bytes, parts: int, exchange: Exchange) -> None:
    step.answered_at_s = monotonic()
    if not step.counted:
        # A client that asked for usage got it in the last event before the end.
        usage = usage_at_end(tail)
        if usage is None:
            _estimate(step, parts, exchange)
            stage.admission.length.seen(step.output_tokens)
            stage.learn(step, step.output_tokens)
        else:
            step.used(*usage)
            stage.counted(usage, step)
    if step.tpot_s is not None:
        stage.metrics.tpot.observe(step.tpot_s)
    stage.metrics.seconds.observe(step.answered_at_s - step.started_at_s)
    step.ended("accepted")

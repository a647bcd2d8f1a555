"""An engine's stream, passed on part by part."""

from cascadia.clients.upstream_errors import UpstreamError
from cascadia.router.answers import DONE
from cascadia.router.exchange import Exchange
from cascadia.router.failures import failed
from cascadia.router.release import Noting
from cascadia.router.requests import Api
from cascadia.router.responses import FAILED, FINAL
from cascadia.router.stage import Live, Stage
from cascadia.router.wire import Headers


async def relay(
    exchange: Exchange, api: Api, stage: Stage, live: Live, headers: Headers, noting: Noting | None
) -> None:
    """Until the engine's end. Breaks off with an error event where the engine does."""
    # A response ends with an event of its own, which holds all of it, or with one that says what failed.
    response, ended = api == "responses", False
    ok: bool | None = None
    try:
        exchange.begin_stream(headers)
        data, tail, hold = live.first, b"", exchange.hold
        while data:
            if hold is not None:
                hold.passed(data)
            out = noting.part(data) if noting else data
            if out:
                await exchange.part(out)
            tail += data
            if response and not ended:
                ended = any(end in tail for end in (*FINAL, *FAILED))
            tail = tail[-32:]
            data = await live.some()
        if not (ended if response else DONE in tail):
            raise UpstreamError("unreadable", "a stream without its end")
        ok = True
        exchange.last_part(noting.rest() if noting else b"")
    except UpstreamError as error:
        ok = False
        stage.metrics.upstream_error(error.kind)
        # A line that was cut must not run into the error's own.
        await exchange.part(b"\n\n")
        raise failed(stage.name, error) from None
    finally:
        live.close(ok)

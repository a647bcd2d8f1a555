"""An engine's stream, passed on part by part."""

from cascadia.clients.upstream_errors import UpstreamError
from cascadia.router.answers import DONE
from cascadia.router.exchange import Exchange, Headers
from cascadia.router.failures import failed
from cascadia.router.release import Noting
from cascadia.router.requests import CASCADED, Api
from cascadia.router.stage import Live, Stage


async def relay(
    exchange: Exchange, api: Api, stage: Stage, live: Live, headers: Headers, noting: Noting | None
) -> None:
    """Until the engine's end. Breaks off with an error event where the engine does."""
    ends_done = api in CASCADED
    ok: bool | None = None
    try:
        await exchange.begin_stream(headers)
        data, tail = live.first, b""
        while data:
            out = noting.part(data) if noting else data
            if out:
                await exchange.part(out)
            tail = (tail + data)[-32:]
            data = await live.some()
        # A response ends with an event of its own, which holds all of it.
        if ends_done and DONE not in tail:
            raise UpstreamError("unreadable", "a stream without its end")
        ok = True
        await exchange.part(noting.rest() if noting else b"", more=False)
    except UpstreamError as error:
        ok = False
        stage.metrics.upstream_error(error.kind)
        # A line that was cut must not run into the error's own.
        await exchange.part(b"\n\n")
        raise failed(stage.name, error) from None
    finally:
        live.close(ok)

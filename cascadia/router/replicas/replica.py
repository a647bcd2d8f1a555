"""One engine: its address, its health, the work it has in hand, and exchanges with it."""

from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from cascadia.clients.engines.held_bytes import HeldBytes
from cascadia.router.replicas.breaker import Breaker
from cascadia.router.replicas.send_window import SendWindow
from cascadia.router.settings.model import Limits, ReplicaSettings
from cascadia.router.telemetry.stage_record import Step
from cascadia.router.upstream.connection import Connection
from cascadia.router.upstream.errors import UpstreamError
from cascadia.router.upstream.pool import Pool

FIRST_REST_S, LONGEST_REST_S, LONGEST_ASKED_REST_S = 0.2, 1.0, 30.0

State = Literal["starting", "ready", "down", "draining"]


class Call(Struct, frozen=True, gc=False):
    """A request as an engine gets it. `headers` are whole lines; `tokens` an estimate of those that it has to read, and
    `most_output` of those that each of its `answers` may have, where that is known.

    `deadline_s` is in the event loop's time. `step` is told what becomes of it.
    """

    path: bytes
    body: bytes
    headers: bytes
    tokens: int
    prefix: int | None
    deadline_s: float
    priority: int = 0
    """Lower is served first, where requests wait."""
    step: Step | None = None
    kept: bool = False
    """Whether it refers to what one engine keeps, and others do not know."""
    most_output: int | None = None
    answers: int = 1
    resets_max: int = 2
    """So many replicas may break off before it is taken for the request's doing, and no other is asked."""
    adds_usage: bool = False
    """Whether it asks for its stream's usage though the client has said nothing of that (`stream_options`)."""


def kind_of(settings: ReplicaSettings) -> str:
    """Kind of a replica: as it is said, else those of one share are of one kind."""
    return settings.kind or f"{settings.share:g}"


class Replica:
    """`name` is unique within the stage, and free of the address's secrets. Of one `identity` two are the same.

    `address`: where a replica of several behind one name is.
    """

    __slots__ = (
        "_post",
        "_prefix",
        "address",
        "api_key",
        "breaker",
        "health_request",
        "identity",
        "ill",
        "kind",
        "limits",
        "load",
        "max_concurrency",
        "name",
        "outstanding_tokens",
        "pool",
        "rest_s",
        "rests_until_s",
        "running",
        "served",
        "state",
        "weight",
        "window",
    )

    def __init__(
        self, name: str, settings: ReplicaSettings, limits: Limits, held: HeldBytes | None = None
    ) -> None:
        self.name = name
        self.address = settings.address
        self.api_key = settings.api_key
        self.identity = (
            settings.url,
            settings.address,
            settings.api_key,
            settings.health_path,
            settings.requests_per_minute,
        )
        self.weight = settings.share
        self.kind = kind_of(settings)
        self.max_concurrency = settings.max_concurrency
        self.limits = limits
        self.pool = Pool(settings.url, limits.connect_s, settings.address, held)
        self.breaker = Breaker(limits.breaker_failures, limits.breaker_first_s, limits.breaker_longest_s)
        self.state: State = "ready" if settings.health_path is None else "starting"
        self.ill = ""
        """Why its last health check failed; empty where it went well, or there was none."""
        self.running = 0
        self.served: set[bytes] = set()
        """Paths at which it has done well."""
        self.outstanding_tokens = 0
        self.load = 0.0
        """Of both, as `cascadia.dispatch.latency_model.load_of` has it: an exact sum."""
        self.rest_s = 0.0
        self.rests_until_s = 0.0
        per_minute = settings.requests_per_minute
        self.window = None if per_minute is None else SendWindow(per_minute)
        host = b"host: " + self.pool.netloc.encode("ascii") + b"\r\n"
        key = (
            b"authorization: Bearer " + settings.api_key.encode("ascii") + b"\r\n"
            if settings.api_key
            else b""
        )
        self._post = b"POST " + urlsplit(settings.url).path.encode("ascii")
        self._prefix = b" HTTP/1.1\r\n" + host + key + b"content-type: application/json\r\n"
        path = (settings.health_path or "").encode("ascii")
        self.health_request = b"GET " + path + b" HTTP/1.1\r\n" + host + key + b"\r\n" if path else b""

    def usable(self, now_s: float) -> bool:
        if self.state != "ready" or now_s < self.rests_until_s:
            return False
        # Nearly always: it is asked of each replica for each request.
        return not self.breaker.failures or self.breaker.allows(now_s)

    def rest(self, now_s: float, asked_s: float | None) -> None:
        """Rests the replica, which said that it is full: it gets nothing for as long as it asked, or a little
        longer each time: as where it asks for no time at all.
        """
        if now_s < self.rests_until_s:
            return  # said by others that were under way
        self.rest_s = min(LONGEST_REST_S, 2 * self.rest_s or FIRST_REST_S)
        self.rests_until_s = now_s + (min(asked_s, LONGEST_ASKED_REST_S) if asked_s else self.rest_s)

    def drain(self) -> None:
        """Drains the replica: it gets nothing new and finishes what it has, until `undrain`, whatever its
        health.
        """
        self.state = "draining"

    def undrain(self) -> None:
        """Ends the drain; its health check decides when it is ready; what waits for it waits."""
        if self.state == "draining":
            self.state = "starting" if self.health_request else "ready"

    def request(self, call: Call) -> bytes:
        body = call.body
        length = b"content-length: %d\r\n\r\n" % len(body)
        return b"".join((self._post, call.path, self._prefix, call.headers, length, body))

    async def begin(self, request: bytes, first_byte_s: float, total_s: float) -> Connection:
        """An exchange whose head has come. Raises `UpstreamError`; else `pool.release` it in the end.

        A connection that turns out to have been closed while it was kept is replaced by a fresh one.
        """
        while True:
            connection = self.pool.take() or await self.pool.connect()
            try:
                limits = self.limits
                connection.send(request, first_byte_s, total_s, limits.max_answer_bytes, limits.idle_s)
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

    async def why_ill(self, timeout_s: float) -> str | None:
        """The reason why its health check fails, in a word; empty where it answers, not with 5xx, None where it could
        not be asked.
        """
        try:
            connection = await self.begin(self.health_request, timeout_s, timeout_s)
        except UpstreamError as error:
            return None if error.kind == "exhausted" else _word(error)
        try:
            await connection.whole()
        except UpstreamError as error:
            return _word(error)
        finally:
            self.pool.release(connection)
        # An engine without a health path says 404, and is there all the same.
        status = connection.answer.status
        return f"status-{status}" if status >= 500 else ""


def _word(error: UpstreamError) -> str:
    return "timeout" if error.kind in ("first-byte", "total") else error.kind

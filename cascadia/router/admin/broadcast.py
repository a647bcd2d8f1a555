"""An operator's commands, done by all processes of a router: whichever is asked does it, and tells the others.

One command at a time, whichever processes are asked: each of two drains would see the other's replica as still there,
and of two documents each process would keep the one that came to it last. A process that takes a dead one's place asks
the others for their overrides, and does the same; where all have died, it goes on with those that were kept.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, Protocol

import orjson

from cascadia.domain.errors import BadInput
from cascadia.router.admin import commands as admin
from cascadia.router.admin.commands import Commanded, Pinnable, Refused
from cascadia.router.replicas.replica import Replica
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import RouterSettings
from cascadia.router.telemetry.request_log import Journal
from cascadia.router.ui.process_state import Gears, Process, replica_state, state, together

LONGEST_WAIT_S = 600.0
PATIENCE_S = 30.0
"""To read a plan takes a process longer than to tell a figure."""
TURN_S = 2 * PATIENCE_S
"""For the command before to be done."""
_LOOK_S = 0.02

Why = Literal["signal", "file", "admin"]
"""What has the files read again."""
_WHY: dict[bytes, Why] = {b"signal": "signal", b"file": "file", b"admin": "admin"}


@dataclass(frozen=True, slots=True)
class Override:
    """Override by an operator. `what`: thresholds, plan, gear, drain or undrain; `body` is a document, or says which
    replica.
    """

    what: str
    body: bytes

    @property
    def message(self) -> bytes:
        return self.what.encode("ascii") + b"\n" + self.body


class Outcome(Protocol):
    """Outcome of reading the files again; a NamedTuple."""

    def _asdict(self) -> dict[str, Any]: ...


class Reloads(Protocol):
    """The files of a router, which may be read again; with overrides, kept for processes that come later."""

    @property
    def loaded(self) -> RouterSettings: ...

    @property
    def last(self) -> Outcome | None: ...

    @property
    def kept(self) -> Iterable[Override]: ...

    def keep(self, overrides: Sequence[Override]) -> None: ...

    async def reload(self, why: Why) -> Outcome: ...


class Peers(Protocol):
    """The other processes of this router: each has `answers` to what it is asked, by name."""

    @property
    def answers(self) -> dict[str, Callable[[bytes], Awaitable[bytes]]]: ...

    async def ask(
        self, what: str, body: bytes = b"", patience_s: float = 1.0, *, successor: bool = False
    ) -> dict[int, bytes]: ...

    async def tell(self, what: str, body: bytes, patience_s: float) -> None: ...

    def turn(self, patience_s: float) -> AbstractAsyncContextManager[None]: ...


class OperatedGears(Pinnable, Gears, Protocol):
    """Gears that are shown and may be pinned."""


class Operated(Process, Commanded, Protocol):
    """A router that an operator may change. `replicas`: all of the plan in force, with their stages."""

    @property
    def reloader(self) -> Reloads | None: ...

    @property
    def gears(self) -> OperatedGears | None: ...

    @property
    def peers(self) -> Peers: ...

    @property
    def events(self) -> Journal: ...

    @property
    def replicas(self) -> Iterator[tuple[Stage, Replica]]: ...


class Operator:
    """`overrides` are in force beside the files, oldest first; `caught_up`: those of before this process too."""

    def __init__(self, router: Operated) -> None:
        self._router = router
        self.overrides: list[Override] = []
        self.caught_up = asyncio.Event()
        router.peers.answers.update(
            {
                "put": self._told,
                "what was put": self._say,
                "reload": self._reload_too,
                "state": self._state,
                "running": self._running,
                "draining": self._draining,
            }
        )

    async def catch_up(self) -> None:
        """Repeats the overrides that were made before this process began; what it is told meanwhile comes after."""
        try:
            reloader = self._router.reloader
            told = next(iter((await self._router.peers.ask("what was put")).values()), None)
            if told is not None:
                found = [Override(what, body.encode()) for what, body in orjson.loads(told)]
            else:
                found = [] if reloader is None else list(reloader.kept)
            for override in found:
                await self._do_here(override)
        finally:
            self.caught_up.set()

    def forget(self) -> None:
        """Has the files in force again, and the load decide of gears. Who drains goes on."""
        if self._router.gears is not None:
            self._router.gears.pin(None)
        self.overrides = self._drains

    async def state(self) -> dict[str, Any]:
        others = await self._router.peers.ask("state")
        return together([state(self._router), *map(orjson.loads, others.values())])

    async def thresholds(self, body: bytes) -> None:
        """Raises `BadInput`."""
        await self._put(Override("thresholds", body))

    async def gear(self, body: bytes) -> None:
        """Raises `BadInput`."""
        await self._put(Override("gear", body))

    async def plan(self, body: bytes) -> None:
        """Raises `BadInput`."""
        await self._put(Override("plan", body))

    async def reload(self) -> dict[str, Any]:
        """Raises `Refused` where there are no files."""
        reloader = self._router.reloader
        if reloader is None:
            raise Refused(409, "no_files", "This router was not started from files.")
        async with self._turn():
            told = await reloader.reload("admin")
            await self._router.peers.tell("reload", b"admin", PATIENCE_S)
        return told._asdict() | {"plan": self._router.digest}

    async def drain(self, name: str, *, wait_s: float, force: bool) -> dict[str, Any]:
        """Returns when nothing runs there any more, or after `wait_s`. Raises `Refused`."""
        async with self._turn():
            stage, replica = _named(self._router, name)
            which = _which(stage, replica)
            if not force and replica.state != "draining":
                await self._check_others(stage, replica)
            await self._everywhere(Override("drain", which))
        loop = asyncio.get_running_loop()
        wait_s = min(LONGEST_WAIT_S, max(0.0, wait_s)) if isfinite(wait_s) else LONGEST_WAIT_S
        until_s = loop.time() + wait_s
        running = await self._running_everywhere(replica, which)
        while running and loop.time() < until_s:
            await asyncio.sleep(_LOOK_S)
            running = await self._running_everywhere(replica, which)
        return replica_state(replica) | {"running": running}

    async def undrain(self, name: str) -> dict[str, Any]:
        """Raises `Refused`."""
        async with self._turn():
            stage, replica = _named(self._router, name)
            await self._everywhere(Override("undrain", _which(stage, replica)))
        return replica_state(replica)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """This command alone. Raises `Refused` where the one before goes on and on."""
        await self.caught_up.wait()
        async with AsyncExitStack() as held:
            try:
                await held.enter_async_context(self._router.peers.turn(TURN_S))
            except TimeoutError:
                raise Refused(503, "busy", "Another command is not done yet.") from None
            yield

    async def _put(self, override: Override) -> None:
        async with self._turn():
            await self._everywhere(override)

    async def _everywhere(self, override: Override) -> None:
        await self._do(override)
        if self._router.reloader is not None:
            # Before others are told: who comes meanwhile is told, or finds it there.
            self._router.reloader.keep(self.overrides)
        await self._router.peers.tell("put", override.message, PATIENCE_S)

    async def _check_others(self, stage: Stage, replica: Replica) -> None:
        """Raises `Refused` where `replica` is the last of `stage` that takes requests."""
        # Of a drain that another process took this one may not have heard, where it was too slow.
        told = await self._router.peers.ask("draining")
        draining = {which for answer in told.values() for which in answer.split(b"\n")}
        others = (r for r in stage.replicas if r is not replica and r.state in ("ready", "starting"))
        if all(_which(stage, other) in draining for other in others):
            message = f"{replica.name!r} is the last replica of {stage.name!r} that takes requests; force=true does it."
            raise Refused(409, "last_replica", message)

    async def _do(self, override: Override) -> None:
        """Here. What a later one makes void is forgotten."""
        match override.what:
            case "thresholds":
                admin.put_thresholds(self._router, override.body)
                # One document of all stands for those before it.
                now = {stage.name: stage.threshold for stage in self._router.settings.stages}
                override = Override(override.what, orjson.dumps(now))
                self.overrides = [one for one in self.overrides if one.what != override.what]
            case "gear":
                admin.put_gear(self._router, override.body)
                self.overrides = [one for one in self.overrides if one.what != override.what]
            case "plan":
                await admin.put_plan(self._router, override.body)
                self.forget()
            case "drain" | "undrain":
                for stage, replica in self._router.replicas:
                    if _which(stage, replica) == override.body:
                        replica.drain() if override.what == "drain" else replica.undrain()
                        # Who waits for it may find another, or it.
                        stage.wait_queue.wake()
                self.overrides = [one for one in self.overrides if one.body != override.body]
        if override.what != "undrain":
            self.overrides.append(override)

    async def _running_everywhere(self, replica: Replica, which: bytes) -> int:
        others = await self._router.peers.ask("running", which, successor=True)
        return replica.running + sum(map(int, others.values()))

    # What the others ask.

    async def _told(self, message: bytes) -> bytes:
        what, _, body = message.partition(b"\n")
        await self.caught_up.wait()
        await self._do_here(Override(what.decode("ascii"), body))
        return b"done"

    async def _do_here(self, override: Override) -> None:
        try:
            await self._do(override)
        except BadInput as error:
            # Its files are others than those of the process that took it.
            self._router.events.line({"event": "admin", "put": override.what, "error": str(error)})

    async def _draining(self, _: bytes) -> bytes:
        return b"\n".join(self._drained)

    @property
    def _drained(self) -> set[bytes]:
        return {_which(stage, r) for stage, r in self._router.replicas if r.state == "draining"}

    @property
    def _drains(self) -> list[Override]:
        """A drain ends with its replica: who has its address by now is another."""
        draining = self._drained
        return [one for one in self.overrides if one.what == "drain" and one.body in draining]

    async def _say(self, _: bytes) -> bytes:
        """Nothing where this process does not know yet."""
        if not self.caught_up.is_set():
            return b""
        drains = self._drains
        told = [one for one in self.overrides if one.what != "drain" or one in drains]
        return orjson.dumps([[override.what, override.body.decode()] for override in told])

    async def _reload_too(self, why: bytes) -> bytes:
        await self.caught_up.wait()
        if self._router.reloader is not None:
            await self._router.reloader.reload(_WHY[why])
        return b"done"

    async def _state(self, _: bytes) -> bytes:
        return orjson.dumps(state(self._router))

    async def _running(self, which: bytes) -> bytes:
        running = (r.running for stage, r in self._router.replicas if _which(stage, r) == which)
        return b"%d" % sum(running)


def _named(router: Operated, name: str) -> tuple[Stage, Replica]:
    for stage, replica in router.replicas:
        if replica.name == name:
            return stage, replica
    known = ", ".join(replica.name for _, replica in router.replicas)
    raise Refused(404, "unknown_replica", f"There is no replica {name[:100]!r}; there are {known}.")


def _which(stage: Stage, replica: Replica) -> bytes:
    """The same replica in every process: names may differ after a reload that one of them did not see."""
    return orjson.dumps([stage.name, replica.identity[0], replica.address])

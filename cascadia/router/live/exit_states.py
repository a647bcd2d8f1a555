"""Certificates of stages that think, kept in files: all processes of a host gather evidence for the same ones, and
those that come later go on where they were.
"""

import asyncio
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from typing import Protocol

import orjson

from cascadia.exits.length import Certified
from cascadia.files.exit_state import EVERY_S, SharedExits
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import JudgeSettings, RouterSettings
from cascadia.router.telemetry.internal_errors import tell

_logger = logging.getLogger("cascadia.router")


class HasExits(Protocol):
    @property
    def stages(self) -> Sequence[Stage]: ...

    @property
    def settings(self) -> RouterSettings: ...


class ExitStates:
    """The one timer: exchanges what the exits of `router`'s stages have found, once a second, beside the event loop."""

    def __init__(self, router: HasExits) -> None:
        self._router = router
        self._shared: dict[Certified, SharedExits] = {}
        self._worker: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Goes on where the files say that exits were."""
        await self._exchange()
        self._worker = asyncio.create_task(self._go_on())

    async def stop(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
            with suppress(asyncio.CancelledError):
                await self._worker
        for one in self._shared.values():
            await asyncio.to_thread(one.close)

    async def _go_on(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self._exchange()
            except Exception as error:  # noqa: BLE001 (whatever a file does: requests go on to be served)
                tell("certificates of exits could not be exchanged", error)

    async def _exchange(self) -> None:
        folder = self._router.settings.exit_states
        now = [(s, s.exits) for s in self._router.stages if isinstance(s.exits, Certified)]
        for stage, exits in now if folder is not None else ():
            assert folder is not None
            if exits in self._shared:
                await asyncio.to_thread(self._shared[exits].exchange)
                continue
            about = digest_of_exits(stage, self._router.settings.judge)
            name = re.sub(r"[^A-Za-z0-9._-]", "_", stage.name)
            path = folder / f"{name}-{about[:12]}.json"
            shared = await asyncio.to_thread(SharedExits, exits.controller, path, about, _logger.warning)
            exits.feeds, self._shared[exits] = shared.feed, shared
        for gone in self._shared.keys() - {exits for _, exits in now}:
            await asyncio.to_thread(self._shared.pop(gone).close)


def digest_of_exits(stage: Stage, judge: JudgeSettings | None) -> str:
    """What evidence is about: the stage's model, its exits and their promise, and whose scores decide."""
    told = stage.settings
    promise = told.promise and (told.promise.risk, told.promise.confidence)
    document = [stage.name, told.model, told.ends_thinking, promise, [asdict(each) for each in told.exits]]
    judges = [] if judge is None else [[one.kind, one.stage and one.stage.model] for one in judge.all]
    return sha256(orjson.dumps([*document, judges])).hexdigest()

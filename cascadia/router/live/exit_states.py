"""Certificates of stages that think, kept in files: all processes of a host gather evidence for the same ones, and
those that come later go on where they were.

Evidence is about a model, its exits and whose scores decide. Of another judge, one that was trained anew among them, it
says nothing: exits then begin anew. Engines tell no more of a model than its name.
"""

import asyncio
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import orjson

from cascadia.exits.length import Certified
from cascadia.files.exit_state import EVERY_S, SharedExits
from cascadia.router.cascade.cascade import Cascade
from cascadia.router.gates.heard import heard
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import JudgeSettings, RouterSettings, StageSettings
from cascadia.router.telemetry.internal_errors import tell
from cascadia_judge.llm.prompt import PROMPT_VERSION

_logger = logging.getLogger("cascadia.router")

CHANGES_NO_SCORE = {"stage", "members", "timeout_s", "cache_size", "scale"}
"""Of a judge's settings; `stage` is told by its model, members are told one by one."""
WITHDRAWN = "exits of %s begin anew: what was certified is of another judge, model or setting"


class HasExits(Protocol):
    @property
    def stages(self) -> Sequence[Stage]: ...

    @property
    def settings(self) -> RouterSettings: ...

    @property
    def cascade(self) -> Cascade: ...


class About(NamedTuple):
    """The subject of evidence: a digest of what was told, and the judges that were heard (None: not yet)."""

    told: str
    judges: tuple[str, ...] | None

    def differs(self, before: "About") -> bool:
        """Tells whether what stood for `before` says nothing of this."""
        if self.judges is None or before.judges is None:
            return self.told != before.told
        return self != before

    @property
    def name(self) -> str:
        return sha256(orjson.dumps([self.told, self.judges])).hexdigest()


class ExitStates:
    """The one timer: exchanges what the exits of `router`'s stages have found, once a second, beside the event loop."""

    def __init__(self, router: HasExits) -> None:
        self._router = router
        self._about: dict[Certified, About] = {}
        self._shared: dict[Certified, SharedExits] = {}
        self._said: set[About] = set()
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
        now = [(s, s.exits) for s in self._router.stages if isinstance(s.exits, Certified)]
        for stage, exits in now:
            about = self._compared(stage, exits)
            if exits in self._shared:
                await asyncio.to_thread(self._shared[exits].exchange)
            elif self._router.settings.exit_states is not None and about.judges is not None:
                await self._opened(stage, exits, about, self._router.settings.exit_states)
        for gone in self._about.keys() - {exits for _, exits in now}:
            del self._about[gone]
            if gone in self._shared:
                await asyncio.to_thread(self._shared.pop(gone).close)

    def _compared(self, stage: Stage, exits: Certified) -> About:
        """The subject of evidence on `exits` now. What there was on something else is withdrawn."""
        about = About(told_of_exits(stage.settings, self._router.settings.judge), self._heard(stage))
        before = self._about.get(exits, about)
        if about.differs(before):
            # What waits to be exchanged may be of either.
            self._shared.pop(exits, None)
            exits.begin_anew()
            self._say(stage, about)
        elif about.judges is None:
            about = before
        self._about[exits] = about
        return about

    def _heard(self, stage: Stage) -> tuple[str, ...] | None:
        """Names of whose scores decide: of who expects something of the question as well, where the stage asks that."""
        scoring = self._router.cascade.scoring
        judges = heard(scoring.gate)
        if scoring.foresight is None or not stage.settings.looks:
            return judges
        foresees = heard(scoring.foresight)
        # Where the judge foresees itself, it is one name.
        return None if judges is None or foresees is None else tuple(dict.fromkeys((*judges, *foresees)))

    async def _opened(self, stage: Stage, exits: Certified, about: About, folder: Path) -> None:
        name = re.sub(r"[^A-Za-z0-9._-]", "_", stage.name)
        path = folder / f"{name}-{about.name[:12]}.json"
        if not path.exists() and any(folder.glob(f"{name}-{'[0-9a-f]' * 12}.json")):
            self._say(stage, about)
        shared = await asyncio.to_thread(SharedExits, exits.controller, path, about.name, _logger.warning)
        exits.feeds, self._shared[exits] = shared.feed, shared

    def _say(self, stage: Stage, about: About) -> None:
        """Tells that evidence is withdrawn, once for what there is to be evidence on instead."""
        if about not in self._said:
            self._said.add(about)
            _logger.warning(WITHDRAWN, stage.name)


def told_of_exits(told: StageSettings, judge: JudgeSettings | None) -> str:
    """Digest of what was told of a stage's model, its exits and their promise, and whose scores decide."""
    promise = told.promise and (told.promise.risk, told.promise.confidence)
    # What was not said when evidence began says nothing now.
    exits = [{k: v for k, v in asdict(each).items() if v is not None} for each in told.exits]
    checks = [[asdict(each) for each in told.verifiers], told.verified]
    document = [told.name, told.model, told.ends_thinking, told.echoes, promise, exits, checks]
    document += [told.budget_field] if told.budget_field else []
    document += [{"ends_answer": told.ends_answer}] if told.ends_answer else []
    judges = [] if judge is None else [_decides(one) for one in judge.all]
    return sha256(orjson.dumps([*document, judges, PROMPT_VERSION], option=orjson.OPT_SORT_KEYS)).hexdigest()


def _decides(judge: JudgeSettings) -> dict[str, Any]:
    """All that is told of one judge but for what changes no score."""
    told = {name: value for name, value in asdict(judge).items() if name not in CHANGES_NO_SCORE}
    return told | {"model": judge.stage and judge.stage.model}

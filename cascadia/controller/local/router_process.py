"""The router on this machine: started with a file, told to read it anew, and asked what it has in hand."""

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from cascadia.clients.processes.guard import descendants
from cascadia.clients.processes.health import get
from cascadia.clients.processes.process import LocalProcess, Program, Restarts
from cascadia.controller.local.members import FleetError, Member
from cascadia.files.text import write_whole

ROUTER = "router"
LOOK_S = 0.05
RELOAD_S = 30.0
SERVE = "from cascadia.cli.main import main; main()"


class RouterProcess:
    """`folder` holds its file and its log. `changed` is called whenever its state changes; `until` waits for what may
    become true then.
    """

    def __init__(
        self,
        folder: Path,
        changed: Callable[[], None],
        until: Callable[[Callable[[], bool]], Awaitable[None]],
        restarts: Restarts | None,
    ) -> None:
        self.process: LocalProcess | None = None
        self._in_force = ""
        self._folder = folder
        self._changed = changed
        self._until = until
        self._restarts = restarts

    @property
    def port(self) -> int | None:
        return None if self.process is None else self.process.program.port

    async def take(self, document: Mapping[str, Any]) -> None:
        """Puts the file `document` in force; starts a router where none runs. Raises `FleetError` where it refuses: the
        file is then that of before, with which a router that dies begins anew.
        """
        path = self._folder / "router.yaml"
        told = {**document, "revision": _revision(document)}
        text = json.dumps(told, indent=2) + "\n"
        write_whole(path, text)
        if self.process is None:
            self._in_force = text
            await self._start(path, document)
            return
        try:
            await self._ready(self.process)
            await self._reload(self.process, told["revision"])
        except FleetError:
            write_whole(path, self._in_force)
            # What it had no time for it shall not take up later.
            _hang_up(self.process)
            raise
        self._in_force = text

    async def stop(self, within_s: float | None) -> None:
        if self.process is not None:
            await self.process.stop(within_s)

    async def running(self, serving: Callable[[str], Sequence[Member]]) -> dict[str, int]:
        """Requests in hand by address, as the router counts: its replicas stand in the order of its file."""
        told = (await self._ready_document()).get("stages", {})
        found: Counter[str] = Counter()
        for stage, entry in told.items():
            members = serving(stage)
            counts = [replica["running"] for replica in entry["replicas"].values()]
            # They differ in number while a change of the file is under way: then nobody knows whose counts these are.
            if len(counts) == len(members):
                # Stages of one group share their workers.
                found.update(dict(zip((m.process.url for m in members), counts, strict=True)))
        return found

    async def idle(self, stage: str) -> bool:
        """Tells whether the router has no more work with any replica that left; of a stage it no longer knows,
        with none of the requests that began under an older plan.
        """
        if self.process is None or self.process.state != "ready":
            return True
        told = await self._ready_document()
        if not told:
            return False
        older = told.get("older", 0) if stage not in told.get("stages", {}) else 0
        return not told.get("leaving") and not older

    async def _start(self, path: Path, document: Mapping[str, Any]) -> None:
        port = int(document.get("port", 8000))
        program = Program(
            ROUTER,
            (sys.executable, "-P", "-c", SERVE, "serve", str(path), "--port", str(port)),
            port,
            # The router's own limit must pass first: it writes its logs and books then, which SIGKILL would lose.
            drain_s=float(document.get("limits", {}).get("drain_s", 120.0)) + 5.0,
        )
        log = self._folder / "logs" / "router.log"
        self.process = LocalProcess(program, log, self._changed, self._restarts)
        self.process.start()
        await self._ready(self.process)

    async def _ready(self, process: LocalProcess) -> None:
        await self._until(lambda: process.state not in ("starting", "stopping"))
        if process.state != "ready":
            raise FleetError(f"the router does not run: {process.why}; its log is {process.log}")

    async def _reload(self, process: LocalProcess, revision: str) -> None:
        """SIGHUP, and then its own word that it serves by the file of that `revision`, which it may have read of itself
        or at a new start. A file that makes no sense leaves the old one in force: then it has heard of more signals
        than before.
        """
        until_s = time.monotonic() + RELOAD_S
        heard: int | None = None
        while time.monotonic() < until_s:
            document = await self._ready_document()
            told = document.get("reload")
            if document.get("revision") == revision:
                return
            if heard is None and document:
                heard = 0 if told is None else told["signals"]
                _hang_up(process)
            elif heard is not None and told and told["signals"] > heard and told["outcome"] == "refused":
                why = self._folder / "logs" / "router.log"
                raise FleetError(f"the router refused its new plan; {why} says why")
            await asyncio.sleep(LOOK_S)
        raise FleetError(f"the router did not take up its new plan within {RELOAD_S:.0f} s")

    async def _ready_document(self) -> dict[str, Any]:
        if self.port is None:
            return {}
        _, body = await get("127.0.0.1", self.port, "/ready")
        try:
            found: dict[str, Any] = json.loads(body)
        except ValueError:
            return {}
        return found


def _revision(document: Mapping[str, Any]) -> str:
    return blake2b(json.dumps(document, sort_keys=True).encode(), digest_size=8).hexdigest()


def _hang_up(process: LocalProcess) -> None:
    """Sends SIGHUP to the program itself: its guard hears nothing but its supervisor's pipe."""
    if process.pid is not None:
        for pid in descendants(process.pid)[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGHUP)

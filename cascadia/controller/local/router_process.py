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
        self._folder = folder
        self._changed = changed
        self._until = until
        self._restarts = restarts

    @property
    def port(self) -> int | None:
        return None if self.process is None else self.process.program.port

    async def take(self, document: Mapping[str, Any]) -> None:
        """Puts the file `document` in force; starts a router where none runs. Raises `FleetError` where it refuses."""
        path = self._folder / "router.yaml"
        write_whole(path, json.dumps(document, indent=2) + "\n")
        if self.process is None:
            await self._start(path, document)
        else:
            await self._ready(self.process)
            await self._reload(self.process)

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

    async def _reload(self, process: LocalProcess) -> None:
        """SIGHUP, and then its own word of it: a file that makes no sense leaves the old one in force.

        Its word is known by the number of signals that it has heard, no time of day: clocks step.
        """
        until_s, starts = time.monotonic() + RELOAD_S, process.started
        heard: int | None = None
        while time.monotonic() < until_s:
            document = await self._ready_document()
            told = document.get("reload")
            if heard is None and document:
                heard = 0 if told is None else told["signals"]
                _hang_up(process)
            elif heard is not None and told is not None and told["signals"] > heard:
                if told["outcome"] == "refused":
                    raise FleetError(
                        f"the router refused its new plan; {self._folder / 'logs/router.log'} says why"
                    )
                return
            if process.started != starts and process.state == "ready":
                return  # it died meanwhile, and began with the new file
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


def _hang_up(process: LocalProcess) -> None:
    """Sends SIGHUP to the program itself: its guard hears nothing but its supervisor's pipe."""
    if process.pid is not None:
        for pid in descendants(process.pid)[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGHUP)

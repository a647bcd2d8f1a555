"""The replicas and the router on this machine, and the one place that starts, stops and routes them.

Every change of what the router sends to is a new router.yaml, taken up in one swap and confirmed before this returns.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cascadia.clients.processes.ports import reserve
from cascadia.clients.processes.process import LocalProcess, Program, Restarts
from cascadia.controller.local.launch import Launch
from cascadia.controller.local.members import FleetError, Member, Members
from cascadia.controller.local.router_file import LastSettings, RouterFile
from cascadia.controller.local.router_process import LOOK_S, RouterProcess
from cascadia.controller.move.state import Routing
from cascadia.domain.errors import CascadiaError

FIRST_PORT = 8100


class LocalFleet:
    """`gpus`: ids by pool. Logs, router.yaml and samples go to `folder`. All methods belong to one event loop."""

    def __init__(
        self, folder: Path, gpus: Mapping[str, tuple[int, ...]], restarts: Restarts | None = None
    ) -> None:
        self.folder = folder
        self.members = Members(gpus)
        self.settled = False
        """The plan that it was started with is up."""
        self._file = RouterFile(self.members)
        self._router = RouterProcess(folder, self._changed, self._until, restarts)
        self._restarts = restarts
        self._changes = asyncio.Condition()
        self._routing = asyncio.Lock()

    async def observe(self) -> dict[str, Any]:
        """The document that `observed_of` reads."""
        running = await self._router.running(self._file.serving)
        told, router = self._file.told, self._router.process
        return {
            "replicas": [_seen(m, running.get(m.process.url, 0)) for m in self.members.values()],
            "gpus": {pool: len(ids) for pool, ids in self.members.gpus.items()},
            "routing": None if told.routing is None else asdict(told.routing),
            "router": None
            if router is None
            else {"state": router.state, "url": router.url, "starts": router.started},
            "launches": [launch.document for launch in self.members.launches()],
            "document": dict(told.document),
            "settled": self.settled,
        }

    async def start(self, name: str, launch: Launch) -> None:
        """Begins to load. Raises `FleetError` where GPUs are taken or the name is."""
        if name in self.members:
            raise FleetError(f"{name} is there already")
        gpus = self.members.free(launch.kind)
        port = reserve(FIRST_PORT)
        argv, env = launch.filled(port=port.number, name=name, gpus=gpus)
        program = Program(
            name,
            argv,
            port.number,
            env,
            launch.withheld,
            cores=_cores(gpus) if launch.cores else (),
            health_path=launch.health_path,
            startup_s=launch.startup_s,
            drain_s=launch.drain_s,
        )
        log = self.folder / "logs" / f"{name}.log"
        process = LocalProcess(program, log, self._changed, self._restarts)
        self.members[name] = Member(name, launch, process, gpus, port)
        process.start()

    async def await_ready(self, name: str) -> None:
        """Waits until the replica answers; then the router sends to it. Raises `FleetError` where it is given
        up.
        """
        member = self.members.named(name)
        await self._until(lambda: member.process.state in ("ready", "failed", "stopped"))
        if member.process.state != "ready":
            raise FleetError(f"{name} did not start: {member.process.why}; its log is {member.process.log}")
        async with self._routing:
            await self._change(member, admitted=True)

    async def undrain(self, name: str) -> None:
        member = self.members.named(name)
        async with self._routing:
            await self._change(member, leaving=False)

    async def drain(self, name: str) -> None:
        """Drains the replica: no new request goes there when this returns."""
        member = self.members.named(name)
        stage = member.stage
        async with self._routing:
            others = [m for m in self.members.serving(stage) if m is not member and m.state == "ready"]
            if self._file.routes_to(stage) and member.state == "ready" and not others:
                raise FleetError(f"{name} is the last replica of {stage} that the router sends to")
            await self._change(member, leaving=True)

    async def stop(self, name: str) -> None:
        """Stops the replica when what it has in hand is done, within its drain time; then the process and its
        GPUs are gone. Raises `FleetError` where the router goes on to send to it.
        """
        if name not in self.members:
            return  # somebody who died meanwhile had asked for it
        member = self.members[name]
        async with self._routing:
            await self._change(member, leaving=True)
        began_s = time.monotonic()
        drain_s = member.launch.drain_s
        while time.monotonic() - began_s < drain_s and not await self._router.idle(member.stage):
            await asyncio.sleep(LOOK_S)
        left_s = drain_s - (time.monotonic() - began_s)
        # Idle or out of time, an engine still needs a moment to end by itself.
        await member.process.stop(max(left_s, 1.0))
        # Where two ask for it, another may have its name by the time that the second is done.
        if self.members.get(name) is member:
            del self.members[name]
            self._file.gone(member)

    async def route(self, routing: Routing, document: Mapping[str, Any]) -> None:
        """Puts `routing` in force in the router, which is started where there is none."""
        missing = [stage for stage in routing.stages if not self.members.serving(stage)]
        if missing:
            raise FleetError(f"the router cannot serve {', '.join(missing)}: no replica is ready")
        async with self._routing:
            before = self._file.told
            self._file.told = LastSettings(routing, document)
            try:
                await self._retold()
            except CascadiaError:
                # A later change would else write what the router has just refused once more.
                self._file.told = before
                raise

    async def close(self, within_s: float | None = None) -> None:
        """The router finishes what it has, then all engines end."""
        await self._router.stop(within_s)
        await asyncio.gather(*(m.process.stop(within_s) for m in self.members.values()))
        for member in self.members.values():
            member.port.release()
        self.members.clear()

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Waits for `condition` of the processes' states."""
        async with self._changes:
            await self._changes.wait_for(condition)

    def _changed(self) -> None:
        async def tell() -> None:
            async with self._changes:
                self._changes.notify_all()

        # Kept: the loop itself holds tasks weakly.
        self._telling = asyncio.get_running_loop().create_task(tell())

    async def _change(
        self, member: Member, *, admitted: bool | None = None, leaving: bool | None = None
    ) -> None:
        """Changes what the router makes of `member`; one change at a time. Where it does not take that up, all is as it
        was: who counts as drained is stopped next, with all that is still sent there.
        """
        before = member.admitted, member.leaving
        served = self.members.serves(member)
        member.admitted = member.admitted if admitted is None else admitted
        member.leaving = member.leaving if leaving is None else leaving
        if self.members.serves(member) == served:
            return
        try:
            await self._retold()
        except CascadiaError:
            member.admitted, member.leaving = before
            raise

    async def _retold(self) -> None:
        """router.yaml anew, and the router's word that it is in force."""
        if self._file.told.routing is not None:
            await self._router.take(self._file.document(self._router.port))
            self._file.taken()


def _seen(member: Member, running: int) -> dict[str, Any]:
    process = member.process
    return {
        "name": member.name,
        "kind": asdict(member.launch.kind),
        "state": member.state,
        "running": running,
        "url": process.url,
        "gpus": list(member.gpus),
        "starts": process.started,
        "why": process.why,
        "again_in_s": process.again_in_s,
        "pid": process.pid,
    }


def _cores(ids: tuple[int, ...]) -> tuple[int, ...]:
    """Cores of those that this process may use; where a plan has more, replicas share them in turn."""
    cores = sorted(os.sched_getaffinity(0))
    return tuple(sorted({cores[i % len(cores)] for i in ids}))

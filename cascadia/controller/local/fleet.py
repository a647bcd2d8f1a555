"""The replicas and the router on this machine, and the one place that starts, stops and routes them.

Every change of what the router sends to is a new router.yaml, taken up in one swap and confirmed before this returns.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cascadia.clients.processes.guard import descendants
from cascadia.clients.processes.health import get
from cascadia.clients.processes.ports import Reserved, reserve
from cascadia.clients.processes.process import LocalProcess, Program, Restarts
from cascadia.controller.local.launch import Launch
from cascadia.controller.move.state import Kind, Routing, State
from cascadia.domain.errors import CascadiaError
from cascadia.files.text import write_whole

FIRST_PORT = 8100
ROUTER = "router"
LOOK_S = 0.05
RELOAD_S = 30.0
SERVE = "from cascadia.cli.main import main; main()"


class FleetError(CascadiaError):
    """Error for what the fleet could not do; the message says why."""


@dataclass(slots=True)
class Member:
    """A replica here. `admitted`: the router sends to it. `leaving`: it is to get nothing new."""

    name: str
    launch: Launch
    process: LocalProcess
    gpus: tuple[int, ...]
    port: Reserved
    admitted: bool = False
    leaving: bool = False

    @property
    def state(self) -> State:
        if self.process.state == "failed":
            return "failed"
        if self.leaving or self.process.state in ("stopping", "stopped"):
            return "draining"
        return "ready" if self.admitted and self.process.state == "ready" else "starting"


@dataclass(slots=True)
class LastSettings:
    """Settings that the router was given last."""

    routing: Routing | None = None
    document: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Named:
    """The replicas of a stage in the router's file, and the ports that wait there for the stage to come back."""

    entries: list[dict[str, Any]]
    held: list[Reserved] = field(default_factory=list)


class LocalFleet:
    """`gpus`: ids by pool. Logs, router.yaml and samples go to `folder`. All methods belong to one event loop."""

    def __init__(
        self, folder: Path, gpus: Mapping[str, tuple[int, ...]], restarts: Restarts | None = None
    ) -> None:
        self.folder = folder
        self.gpus = gpus
        self.members: dict[str, Member] = {}
        self.router: LocalProcess | None = None
        self.told = LastSettings()
        self._named: dict[str, Named] = {}
        self.settled = False
        """The plan that it was started with is up."""
        self._restarts = restarts
        self._changes = asyncio.Condition()
        self._routing = asyncio.Lock()

    async def observe(self) -> dict[str, Any]:
        """The document that `observed_of` reads."""
        running = await self._running()
        return {
            "replicas": [
                {
                    "name": m.name,
                    "kind": asdict(m.launch.kind),
                    "state": m.state,
                    "running": running.get(m.process.url, 0),
                    "url": m.process.url,
                    "gpus": list(m.gpus),
                    "starts": m.process.started,
                    "why": m.process.why,
                    "again_in_s": m.process.again_in_s,
                    "pid": m.process.pid,
                }
                for m in self.members.values()
            ],
            "gpus": {pool: len(ids) for pool, ids in self.gpus.items()},
            "routing": None if self.told.routing is None else asdict(self.told.routing),
            "router": None
            if self.router is None
            else {"state": self.router.state, "url": self.router.url, "starts": self.router.started},
            "launches": [m.launch.document for m in self._one_of_each()],
            "document": dict(self.told.document),
            "settled": self.settled,
        }

    async def start(self, name: str, launch: Launch) -> None:
        """Begins to load. Raises `FleetError` where GPUs are taken or the name is."""
        if name in self.members:
            raise FleetError(f"{name} is there already")
        gpus = self._take(launch.kind)
        port = reserve(FIRST_PORT)
        argv, env = launch.filled(port=port.number, name=name, gpus=gpus)
        program = Program(
            name,
            argv,
            port.number,
            env,
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
        member = self._member(name)
        async with self._changes:
            await self._changes.wait_for(lambda: member.process.state in ("ready", "failed", "stopped"))
        if member.process.state != "ready":
            raise FleetError(f"{name} did not start: {member.process.why}; its log is {member.process.log}")
        if not member.admitted:
            member.admitted = True
            await self._retold()

    async def undrain(self, name: str) -> None:
        member = self._member(name)
        member.leaving = False
        await self._retold()

    async def drain(self, name: str) -> None:
        """Drains the replica: no new request goes there when this returns."""
        member = self._member(name)
        stage = member.launch.kind.stage
        routed = self.told.routing is not None and stage in self.told.routing.stages
        others = [m for m in self._serving(stage) if m is not member and m.state == "ready"]
        if routed and member.state == "ready" and not others:
            raise FleetError(f"{name} is the last replica of {stage} that the router sends to")
        member.leaving = True
        await self._retold()

    async def stop(self, name: str) -> None:
        """Stops the replica when what it has in hand is done, within its drain time; then the process and its
        GPUs are gone.
        """
        if name not in self.members:
            return  # somebody who died meanwhile had asked for it
        member = self._member(name)
        member.leaving = True
        began_s = time.monotonic()
        drain_s = member.launch.drain_s
        while time.monotonic() - began_s < drain_s and not await self._idle(member.launch.kind.stage):
            await asyncio.sleep(LOOK_S)
        left_s = drain_s - (time.monotonic() - began_s)
        await member.process.stop(max(left_s, 1.0))
        self.members.pop(name, None)
        named = self._named.get(member.launch.kind.stage)
        if named is not None and any(entry["url"] == member.process.url for entry in named.entries):
            named.held.append(member.port)
        else:
            member.port.release()

    async def route(self, routing: Routing, document: Mapping[str, Any]) -> None:
        """Puts `routing` in force in the router, which is started where there is none."""
        missing = [stage for stage in routing.stages if not self._serving(stage)]
        if missing:
            raise FleetError(f"the router cannot serve {', '.join(missing)}: no replica is ready")
        before = self.told
        self.told = LastSettings(routing, document)
        try:
            await self._retold()
        except FleetError:
            self.told = before
            raise

    async def close(self, within_s: float | None = None) -> None:
        """The router finishes what it has, then all engines end."""
        if self.router is not None:
            await self.router.stop(within_s)
        await asyncio.gather(*(m.process.stop(within_s) for m in self.members.values()))
        for member in self.members.values():
            member.port.release()
        self.members.clear()

    def _take(self, kind: Kind) -> tuple[int, ...]:
        taken = {i for m in self.members.values() if m.launch.kind.pool == kind.pool for i in m.gpus}
        free = [i for i in self.gpus.get(kind.pool, ()) if i not in taken]
        if len(free) < kind.gpus:
            raise FleetError(f"{kind.gpus} GPUs of {kind.pool} are wanted, and {len(free)} are free")
        return tuple(free[: kind.gpus])

    def _member(self, name: str) -> Member:
        if name not in self.members:
            raise FleetError(f"there is no replica {name}; there are {', '.join(self.members) or 'none'}")
        return self.members[name]

    def _one_of_each(self) -> list[Member]:
        return list({m.launch.kind: m for m in self.members.values()}.values())

    def _serving(self, stage: str) -> list[Member]:
        """Members that the router's file names. One that died stays: it is coming back, and the router sees to
        its health.
        """
        return [
            m
            for m in self.members.values()
            if m.launch.kind.stage == stage and m.admitted and not m.leaving and m.process.state != "failed"
        ]

    def _changed(self) -> None:
        async def tell() -> None:
            async with self._changes:
                self._changes.notify_all()

        self._telling = asyncio.get_running_loop().create_task(tell())

    async def _retold(self) -> None:
        """router.yaml anew, and the router's word that it is in force."""
        if self.told.routing is None:
            return
        async with self._routing:
            path = self.folder / "router.yaml"
            write_whole(path, json.dumps(self._router_document(), indent=2) + "\n")
            if self.router is None:
                await self._start_router(path)
            else:
                await self._router_ready(self.router)
                await self._reload(self.router)

    def _router_document(self) -> dict[str, Any]:
        document = dict(self.told.document)
        if self.router is not None:
            document["port"] = self.router.program.port
        routed = () if self.told.routing is None else self.told.routing.stages
        return with_replicas(document, routed, self._replicas)

    def _replicas(self, stage: str) -> list[dict[str, Any]]:
        """Replicas of a stage for the router's file. Where none is left those that were: the router refuses a
        file in which a stage has none, and must hear what else has changed. It finds them dead, and nobody else
        gets their ports.
        """
        before = self._named.get(stage, Named([]))
        found = [_entry(m) for m in self._serving(stage)]
        if not found:
            return before.entries
        for port in before.held:
            port.release()
        self._named[stage] = Named(found)
        return found

    async def _start_router(self, path: Path) -> None:
        port = int(self.told.document.get("port", 8000))
        program = Program(
            ROUTER,
            (sys.executable, "-c", SERVE, "serve", str(path), "--port", str(port)),
            port,
            drain_s=float(self.told.document.get("limits", {}).get("drain_s", 120.0)) + 5.0,
        )
        self.router = LocalProcess(
            program, self.folder / "logs" / "router.log", self._changed, self._restarts
        )
        self.router.start()
        await self._router_ready(self.router)

    async def _router_ready(self, router: LocalProcess) -> None:
        async with self._changes:
            await self._changes.wait_for(lambda: router.state not in ("starting", "stopping"))
        if router.state != "ready":
            raise FleetError(f"the router does not run: {router.why}; its log is {router.log}")

    async def _reload(self, router: LocalProcess) -> None:
        """SIGHUP, and then its own word of it: a file that makes no sense leaves the old one in force."""
        began_s, starts = time.time(), router.started
        _hang_up(router)
        while time.time() - began_s < RELOAD_S:
            told = (await self._ready_document()).get("reload")
            if told is not None and told["at"] >= began_s - 0.002:
                if told["outcome"] == "refused":
                    raise FleetError(
                        f"the router refused its new plan; {self.folder / 'logs/router.log'} says why"
                    )
                return
            if router.started != starts and router.state == "ready":
                return  # it died meanwhile, and began with the new file
            await asyncio.sleep(LOOK_S)
        raise FleetError(f"the router did not take up its new plan within {RELOAD_S:.0f} s")

    async def _ready_document(self) -> dict[str, Any]:
        if self.router is None:
            return {}
        _, body = await get("127.0.0.1", self.router.program.port, "/ready")
        try:
            found: dict[str, Any] = json.loads(body)
        except ValueError:
            return {}
        return found

    async def _running(self) -> dict[str, int]:
        """Requests in hand by address, as the router counts: its replicas stand in the order of its file."""
        told = (await self._ready_document()).get("stages", {})
        found: dict[str, int] = {}
        for stage, entry in told.items():
            members = self._serving(stage)
            counts = [replica["running"] for replica in entry["replicas"].values()]
            if len(counts) == len(members):
                found.update(zip((m.process.url for m in members), counts, strict=True))
        return found

    async def _idle(self, stage: str) -> bool:
        """Tells whether the router has no more work with any replica that left; of a stage it no longer knows,
        with none of the requests that began under an older plan.
        """
        if self.router is None or self.router.state != "ready":
            return True
        told = await self._ready_document()
        if not told:
            return False
        older = told.get("older", 0) if stage not in told.get("stages", {}) else 0
        return not told.get("leaving") and not older


def with_replicas(
    document: Mapping[str, Any], routed: Iterable[str], replicas: Callable[[str], list[dict[str, Any]]]
) -> dict[str, Any]:
    """A plan's router.yaml with the replicas of each stage; of those routed to, the one that is none is the judge."""
    stages = [{"replicas": replicas(stage["name"]), **stage} for stage in document["stages"]]
    found = {**document, "stages": stages}
    names = {stage["name"] for stage in stages}
    for judge in (stage for stage in routed if stage not in names):
        found["judge"] = {**document["judge"], "replicas": replicas(judge)}
    return found


def _hang_up(router: LocalProcess) -> None:
    """Sends SIGHUP to the program itself: its guard hears nothing but its supervisor's pipe."""
    if router.pid is not None:
        for pid in descendants(router.pid)[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGHUP)


def _cores(ids: tuple[int, ...]) -> tuple[int, ...]:
    """Cores of those that this process may use; where a plan has more, replicas share them in turn."""
    cores = sorted(os.sched_getaffinity(0))
    return tuple(sorted({cores[i % len(cores)] for i in ids}))


def _entry(member: Member) -> dict[str, Any]:
    launch = member.launch
    entry: dict[str, Any] = {
        "url": member.process.url,
        "share": launch.capacity_rps,
        "health_path": launch.health_path,
    }
    return entry if launch.max_concurrency is None else {**entry, "max_concurrency": launch.max_concurrency}

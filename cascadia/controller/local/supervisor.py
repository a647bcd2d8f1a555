"""The process behind `cascadia up`: it holds the fleet, and is the parent of all that runs."""

import asyncio
import fcntl
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cascadia.clients.processes.guard import become_subreaper
from cascadia.clients.processes.ports import reserve_one
from cascadia.clients.processes.process import Restarts
from cascadia.controller.local.backend import LocalBackend
from cascadia.controller.local.control_socket import listening
from cascadia.controller.local.desired import LocalPlan
from cascadia.controller.local.fleet import LocalFleet
from cascadia.controller.memory.state import Source, begin
from cascadia.controller.move.backend import move
from cascadia.controller.move.steps import AwaitReady, Route, Start, Step
from cascadia.domain.errors import BadInput

LOCK = "up.lock"
_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


async def supervise(
    plan: LocalPlan,
    folder: Path,
    *,
    source: Source | None = None,
    ready: Callable[[], None] = lambda: None,
    note: Callable[[Step], None] = lambda _: None,
    restarts: Restarts | None = None,
) -> None:
    """Keeps a plan's fleet up until SIGTERM, SIGINT, SIGHUP (its terminal has gone) or `down`; a second signal ends
    what is still draining. `source`: the files that it came of, which are remembered. Raises `StepFailed` where the
    plan does not come up; then nothing is left.
    """
    # Engines' workers whose parents die become ours, and are ended with the fleet instead of keeping a GPU.
    become_subreaper()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    port = int(plan.router.get("port", 8000))
    with only_one(folder / LOCK, "a fleet runs here already", "end it with `cascadia down`"), _held(port):
        fleet = LocalFleet(folder, gpu_ids(plan, os.environ), restarts)
        if source is not None:
            begin(folder, source)
        hurrying: list[asyncio.Task[None]] = []

        def end() -> None:
            if ended.is_set():
                hurrying.append(loop.create_task(fleet.close(0.0)))
            ended.set()

        for number in _ENDS:
            # `nohup` asks to stay.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, end)
        async with listening(fleet, ended.set):
            try:
                if await _brought_up(plan, folder, note, ended):
                    fleet.settled = True
                    ready()
                    await ended.wait()
            finally:
                await fleet.close()
                await asyncio.gather(*hurrying)


@contextmanager
def _held(port: int) -> Iterator[None]:
    """The router's port, while engines load as well: neither they nor another fleet's router get it."""
    found = reserve_one(port)
    if found is None:
        raise BadInput(f"port {port}", "another program listens there", "name another with --port")
    try:
        yield
    finally:
        found.release()


async def _brought_up(
    plan: LocalPlan, folder: Path, note: Callable[[Step], None], ended: asyncio.Event
) -> bool:
    """False where the end was asked for meanwhile. Raises `StepFailed`."""
    moving = asyncio.create_task(_bring_up(plan, folder, note))
    ending = asyncio.create_task(ended.wait())
    await asyncio.wait({moving, ending}, return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    if not moving.done():
        moving.cancel()
        return False
    moving.result()
    return True


async def _bring_up(plan: LocalPlan, folder: Path, note: Callable[[Step], None]) -> None:
    """All begin to load together; the router serves when each stage has a replica, and then sends to the others too."""
    backend = LocalBackend(folder, plan.launches, {plan.routing.label: plan.router})
    starts = list(_starts(plan))
    first = {start.kind.stage: start.name for start in reversed(starts)}
    serving = (AwaitReady(first[stage]) for stage in plan.routing.stages)
    steps: list[Step] = [*starts, *serving, Route(plan.routing)]
    for step in steps:
        note(step)
        await backend.take(step)
    await move(backend, plan.desired(), note=note)


def _starts(plan: LocalPlan) -> Iterator[Start]:
    """The largest first, so that a replica's GPUs are neighbours."""
    numbers: Counter[str] = Counter()
    for kind in sorted(plan.counts, key=lambda kind: (-kind.gpus, kind)):
        for _ in range(plan.counts[kind]):
            yield Start(f"{kind.stage}-{numbers[kind.stage]}", kind)
            numbers[kind.stage] += 1


def gpu_ids(plan: LocalPlan, environment: Mapping[str, str]) -> Mapping[str, tuple[int, ...]]:
    """GPU ids by pool, numbered through the machine's pools in their order; cores from 0 on.

    Where `environment` shows only some of the machine's GPUs, these are all there are. Raises `BadInput` where they are
    too few.
    """
    on_cores = {kind.pool for kind, launch in plan.launches.items() if launch.cores}
    variables = {name for launch in plan.launches.values() for name in launch.env if name in VISIBLE}
    shown = next(((name, environment[name]) for name in sorted(variables) if name in environment), None)
    there = sum(count for pool, count in plan.gpus.items() if pool not in on_cores)
    gpus = iter(range(there) if shown is None else _shown(*shown, there))
    return {
        pool: tuple(range(count)) if pool in on_cores else tuple(next(gpus) for _ in range(count))
        for pool, count in plan.gpus.items()
    }


def _shown(name: str, value: str, wanted: int) -> list[int]:
    ids = [part.strip() for part in value.split(",") if part.strip()]
    if not all(part.isdecimal() for part in ids):
        raise BadInput(name, f"is {value!r}", "name the GPUs by their numbers, e.g. 4,5,6,7")
    if len(ids) < wanted:
        raise BadInput(
            name, f"shows {len(ids)} GPUs, and the plan's pools have {wanted}", "show more, or plan for these"
        )
    return [int(part) for part in ids]


@contextmanager
def only_one(path: Path, what: str, instead: str) -> Iterator[None]:
    """Holds the lock file `path`, which ends with its process. Raises `BadInput` where another process holds it."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(str(path.parent), what, instead) from None
        yield

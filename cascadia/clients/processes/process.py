"""One program under a guard: started, asked for its health, started again when it dies, stopped with all it began."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import SubprocessError
from typing import Literal
from uuid import uuid4

from cascadia.clients.processes import guard as local_guard
from cascadia.clients.processes.health import healthy
from cascadia.clients.processes.ports import is_taken

State = Literal["starting", "ready", "failed", "stopping", "stopped"]

LOG_BYTES = 64 * 2**20
"""Of a log, and of the former one beside it."""
GRACE_S = 5.0
"""For a program whose supervisor has gone."""


def guarded(argv: Sequence[str], log: Path, log_bytes: int = LOG_BYTES) -> list[str]:
    """The command of a guard (`guard.py`) that runs `argv`."""
    guard = [sys.executable, "-I", "-S", local_guard.__file__]
    return [*guard, str(log), str(log_bytes), str(GRACE_S), "--", *argv]


def bound_to(cores: Collection[int]) -> Callable[[], None] | None:
    """Function that a new process calls first so that it, and what it starts, stay on `cores`; nothing for
    none.
    """
    return (lambda: os.sched_setaffinity(0, cores)) if cores else None


@dataclass(frozen=True, slots=True)
class Program:
    """Program to start. `env` goes on top of this process's own, less the variables `withheld`; `cores`: CPUs that it
    may use, all where empty.

    `health_path` None: it is ready as soon as it runs. `startup_s`: longer than that without an answer is a failed
    start. `drain_s`: what it may take to end after SIGTERM.
    """

    name: str
    argv: tuple[str, ...]
    port: int
    env: Mapping[str, str] = field(default_factory=dict)
    withheld: Collection[str] = ()
    cores: tuple[int, ...] = ()
    health_path: str | None = "/health"
    startup_s: float = 3600.0
    drain_s: float = 120.0

    def environment(self, ours: Mapping[str, str]) -> dict[str, str]:
        """Variables that it is started with by a process whose environment is `ours`."""
        return {name: value for name, value in ours.items() if name not in self.withheld} | dict(self.env)


@dataclass(frozen=True, slots=True)
class Restarts:
    """Waits before restarts, after the k-th failure in a row: `first_s` * 2^(k-1), at most `longest_s`; after
    `most` it is given up.

    A program that was ready for `steady_s` has left its failures behind.
    """

    first_s: float = 1.0
    longest_s: float = 60.0
    most: int = 5
    steady_s: float = 60.0

    def wait_s(self, failures: int) -> float:
        return float(min(self.longest_s, self.first_s * 2.0 ** (failures - 1)))


class LocalProcess:
    """`changed` is called whenever `state` changes. `started` counts starts; `why` says what went wrong last."""

    def __init__(
        self,
        program: Program,
        log: Path,
        changed: Callable[[], None] = lambda: None,
        restarts: Restarts | None = None,
        look_s: float = 0.2,
        log_bytes: int = LOG_BYTES,
    ) -> None:
        self.program = program
        self.log = log
        self.state: State = "starting"
        self.why = ""
        self.started = 0
        self._changed = changed
        self._restarts = restarts or Restarts()
        self._look_s = look_s
        self._log_bytes = log_bytes
        self._again_s: float | None = None
        self._guard: asyncio.subprocess.Process | None = None
        self._mark = uuid4().hex
        self._stop = asyncio.Event()
        self._stop_s = program.drain_s
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the guard, while it runs."""
        return self._guard.pid if self._guard is not None and self._guard.returncode is None else None

    @property
    def again_in_s(self) -> float | None:
        """Seconds until it is started again, after a failure; None while it runs or is no longer to."""
        if self._again_s is None:
            return None
        return max(0.0, self._again_s - asyncio.get_running_loop().time())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.program.port}"

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep())

    async def stop(self, within_s: float | None = None) -> None:
        """Ended with its whole tree when this returns. A second call with less time hurries the first."""
        self._stop_s = self.program.drain_s if within_s is None else within_s
        self._stop.set()
        self._tell_guard()
        if self._task is not None:
            await asyncio.shield(self._task)
        self._become("stopped")

    async def _keep(self) -> None:
        """Starts it again and again, until it is stopped or given up."""
        loop = asyncio.get_running_loop()
        failures = 0
        while not self._stop.is_set():
            try:
                ready_s = await self._live(loop.time())
            except (OSError, SubprocessError) as error:  # full is the disk, or a limit on processes or files
                self.why, ready_s = f"cannot be started: {error}", None
            if self._stop.is_set():
                return
            steady = ready_s is not None and ready_s >= self._restarts.steady_s
            failures = 1 if steady else failures + 1
            if self._guard is not None and self._guard.returncode == local_guard.NOT_STARTED:
                self.why = f"cannot start {self.program.argv[0]}"
                self._become("failed")
                return
            if failures >= self._restarts.most:
                self.why += f"; given up after {failures} failures"
                self._become("failed")
                return
            self._become("starting")
            wait_s = self._restarts.wait_s(failures)
            self._again_s = loop.time() + wait_s
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), wait_s)
            self._again_s = None

    async def _live(self, began_s: float) -> float | None:
        """One life; returns for how long it was ready, None where it never was."""
        loop = asyncio.get_running_loop()
        if is_taken(self.program.port):
            # Its answers would be taken for ours.
            self.why = f"another program listens at port {self.program.port}"
            return None
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._guard = await self._spawn()
        self.started += 1
        ended = asyncio.create_task(self._guard.wait())
        stopped = asyncio.create_task(self._stop.wait())
        ready_s: float | None = None
        if self._stop.is_set():
            self._tell_guard()
        try:
            while not ended.done():
                if ready_s is None and not stopped.done():
                    if await self._answers():
                        ready_s = loop.time()
                        self._become("ready")
                    elif loop.time() - began_s > self.program.startup_s:
                        self.why = f"did not answer within {self.program.startup_s:g} s"
                        self._guard_says(0.0)
                        await ended
                        return None
                elif stopped.done():
                    self._become("stopping")
                    await ended
                    break
                waited = {ended} if ready_s is not None and stopped.done() else {ended, stopped}
                await asyncio.wait(
                    waited,
                    timeout=None if ready_s is not None else self._look_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            self.why = f"ended with exit code {self._guard.returncode}"
        finally:
            stopped.cancel()
            await self._clear()
        return None if ready_s is None else loop.time() - ready_s

    async def _spawn(self) -> asyncio.subprocess.Process:
        program = self.program
        return await asyncio.create_subprocess_exec(
            *guarded(program.argv, self.log, self._log_bytes),
            env={**program.environment(os.environ), local_guard.MARK: self._mark},
            stdin=asyncio.subprocess.PIPE,
            preexec_fn=bound_to(program.cores),
            start_new_session=True,
        )

    async def _clear(self) -> None:
        """Ends what a guard that was killed has left behind; nothing, as a rule."""
        while left := local_guard.marked(os.getpid(), self._mark):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(local_guard.LOOK_S)

    async def _answers(self) -> bool:
        if self.program.health_path is None:
            return True
        return await healthy("127.0.0.1", self.program.port, self.program.health_path)

    def _tell_guard(self) -> None:
        self._guard_says(self._stop_s)

    def _guard_says(self, wait_s: float) -> None:
        if self._guard is not None and self._guard.returncode is None and self._guard.stdin is not None:
            with suppress(ConnectionError, RuntimeError):
                self._guard.stdin.write(f"stop {wait_s}\n".encode())

    def _become(self, state: State) -> None:
        if state != self.state and self.state != "stopped":
            self.state = state
            self._changed()

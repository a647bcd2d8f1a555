"""Several processes behind one port: the kernel deals connections out to them (SO_REUSEPORT), and a parent that serves
nothing looks after them.

Each worker has a listening socket of its own, made before it is: who connects while it is replaced waits there.
"""

import contextlib
import ctypes
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import ceil

from cascadia.domain.errors import BadInput
from cascadia.router.server.asleep import LOOK_S, Asleep, Heartbeats, end_blocked
from cascadia.router.settings.each_stage import with_each_stage
from cascadia.router.settings.model import ReplicaSettings, RouterSettings, StageSettings

QUICK_S = 2.0
"""A worker that ends within this time of its start had no chance to serve."""
MOST_QUICK = 5
"""So many of these in a row for each worker, and there is no use in another."""
PAUSE_S = 0.5
LAST_S = 3.0
"""For a worker that is told to end to write its stack; then it is killed."""
PR_SET_PDEATHSIG = 1
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
DRAIN = signal.SIGUSR2
AT_ONCE = signal.SIGUSR1
"""From the parent to a worker: finish what runs, or end without waiting for it. The kernel says the former too, where
the parent was killed. SIGTERM is of somebody else, to this worker alone or to all processes of a service (systemd)."""
_HELD = (*_SIGNALS, DRAIN)
"""What comes to a worker before it listens for signals is held back until it does: clients may wait for it already."""
_SERVES, _LEAVES = b"s", b"l"
_WORD = struct.Struct("=ic")


def shared(settings: RouterSettings, workers: int, number: int = 0) -> RouterSettings:
    """The own part of worker `number` of what is limited for the router as a whole: replicas' and queue's places,
    connections, what somebody else's API is sent in a minute, and tokens of shadow evaluations. Raises `BadInput` where
    that is less than a request each, or one process is to form all batches."""
    if workers == 1:
        return settings
    if (group := next((one.name for one in settings.groups if one.policies), None)) is not None:
        raise BadInput(
            f"--workers {workers}",
            f"would give group {group} a queue in each process, and each a part of the load by which its policies "
            "are chosen",
            "leave it out: one process forms its batches",
        )

    def part(whole: int) -> int:
        return max(1, ceil((whole - number) / workers))

    def sent(most: int | None) -> int | None:
        if most is not None and most < workers:
            what = f"{most} a minute are fewer than the {workers} processes of the router"
            raise BadInput("requests_per_minute", what, f"write --workers {most}, or fewer")
        return None if most is None else most // workers

    def replica(one: ReplicaSettings) -> ReplicaSettings:
        return replace(
            one,
            max_concurrency=part(one.max_concurrency),
            requests_per_minute=sent(one.requests_per_minute),
        )

    def stage(one: StageSettings) -> StageSettings:
        return replace(one, replicas=tuple(map(replica, one.replicas)))

    limits, shadow = settings.limits, settings.shadow
    limits = replace(
        limits,
        max_queue=part(limits.max_queue),
        max_connections=part(limits.max_connections),
        max_held_bytes=part(limits.max_held_bytes),
    )
    shadow = replace(
        shadow,
        tokens_per_hour=shadow.tokens_per_hour // workers,
        burst_at_once=part(shadow.burst_at_once),
    )
    return replace(with_each_stage(settings, stage), limits=limits, shadow=shadow)


def hear() -> None:
    """Lets signals come to this process, which listens for them now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)


class Workers:
    """`serve` is called in each worker with its number, and returns when that is to end. `common`: a socket at which
    all of them listen."""

    def __init__(
        self,
        listening: Sequence[socket.socket],
        serve: Callable[[int], None],
        common: socket.socket | None = None,
        blocked_s: float = 0.0,
    ) -> None:
        """A worker that sends heartbeats and whose loop sleeps for `blocked_s` within one is replaced; 0: none."""
        self._listening = list(listening)
        self._common = [] if common is None else [common]
        self._serve = serve
        self._started_s: dict[int, float] = {}
        self._numbers: dict[int, int] = {}
        self.heartbeats = Heartbeats(len(self._listening))
        self._blocked_s = blocked_s
        self._asleep: dict[int, Asleep] = {}
        self._ending: dict[int, float] = {}
        """When workers that were blocked were told to end."""
        self._left: dict[int, int] = {}
        """Numbers of workers that end, each with a successor."""
        self._serving: set[int] = set()
        self._words, self._worker_words = os.pipe()
        os.set_blocking(self._words, False)
        self._told: Callable[[], None] | None = None
        self._stopping = False
        self._quick = 0
        self._failed = False

    def run(self, told: Callable[[], None]) -> int:
        """Runs workers until SIGTERM or SIGINT, and all workers are done. `told` is called once all of them serve. The
        exit code: 1 where one of them failed at the end, or where they cannot be kept alive.
        """
        self._told = told
        for one in _SIGNALS:
            signal.signal(one, self._pass_on)
        # It is waited for, for a while at a time.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        for number in range(len(self._listening)):
            self._begin(number)
        while self._numbers:
            pid, status = self._ended()
            if pid not in self._numbers:
                continue
            number = self._numbers.pop(pid)
            self._asleep.pop(pid, None)
            self._ending.pop(pid, None)
            lived_s = time.monotonic() - self._started_s.pop(pid)
            if self._stopping:
                # One that had not begun to listen for signals is ended by this one.
                self._failed |= status not in (0, AT_ONCE)
                continue
            if self._left.pop(pid, None) is not None:
                continue
            self._serving.discard(number)
            self._quick = self._quick + 1 if lived_s < QUICK_S else 0
            if self._quick >= MOST_QUICK * len(self._listening):
                self._failed = True
                self._stop()
                continue
            if self._quick:
                time.sleep(PAUSE_S)
            self._begin(number)
        return int(self._failed)

    def _ended(self) -> tuple[int, int]:
        """A child that has ended, and how. Until one has, each is looked at time and again."""
        while self._numbers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                return pid, status
            signal.sigtimedwait({signal.SIGCHLD}, LOOK_S)
            self._listen_to_workers()
            if self._blocked_s:
                for pid, number in tuple(self._numbers.items()):
                    if pid not in self._left:
                        self._look_at(pid, number)
        return 0, 0

    def serves(self) -> None:
        """A worker's word to its parent: it takes clients."""
        self._say(_SERVES)

    def leaves(self) -> None:
        """A worker's word to its parent: it is to end, and goes on until its successor serves."""
        self.heartbeats.leave()
        self._say(_LEAVES)

    def _say(self, what: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._worker_words, _WORD.pack(os.getpid(), what))
            # It wakes the parent.
            os.kill(os.getppid(), signal.SIGCHLD)

    def _listen_to_workers(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while word := os.read(self._words, _WORD.size):
                pid, what = _WORD.unpack(word)
                if pid not in self._numbers or pid in self._left or self._stopping:
                    continue
                if what == _SERVES:
                    self._on_serving(self._numbers[pid])
                else:
                    self._left[pid] = self._numbers[pid]
                    self._begin(self._numbers[pid])

    def _on_serving(self, number: int) -> None:
        for pid, left in self._left.items():
            if left == number:
                self._tell(DRAIN, (pid,))
        self._serving.add(number)
        if self._told is not None and len(self._serving) == len(self._listening):
            self._told()
            self._told = None

    def _look_at(self, pid: int, number: int) -> None:
        told_s = self._ending.get(pid)
        if told_s is None:
            seconds = self._asleep[pid].look(self.heartbeats.of(number))
            if seconds >= self._blocked_s:
                self._ending[pid] = time.monotonic()
                end_blocked(pid, seconds)
        elif time.monotonic() - told_s > LAST_S and self._asleep.pop(pid, None) is not None:
            os.kill(pid, signal.SIGKILL)
        elif time.monotonic() - told_s > 2 * LAST_S and not self._stopping:
            # It waits in the kernel, which lets nobody end it: its place is taken, and its end not waited for.
            del self._numbers[pid], self._ending[pid], self._started_s[pid]
            self._begin(number)

    def _begin(self, number: int) -> None:
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        # None is taken between: the parent would not know the worker yet, and the worker would do as the parent does.
        signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
        self.heartbeats.end(number)
        pid = None if self._stopping else os.fork()
        if pid != 0:
            if pid is not None:
                self._numbers[pid] = number
                self._asleep[pid] = Asleep(pid)
                self._started_s[pid] = time.monotonic()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            return
        code = 1
        try:
            self._become(number, parent)
            self._serve(number)
            code = 0
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            # Not `sys.exit`: what the parent would do at its end is not the worker's to do.
            os._exit(code)

    def _become(self, number: int, parent: int) -> None:
        for other, listening in enumerate(self._listening):
            if other != number:
                listening.close()
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_DFL)
        # Ctrl-C is for the parent, which passes it on once.
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGCHLD,))
        # Nobody would look after it, nor pass signals on: it drains where its parent was killed.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, DRAIN)
        # The parent may have gone before `prctl`, which tells of later deaths only.
        if os.getppid() != parent:
            os.kill(os.getpid(), DRAIN)

    def _pass_on(self, number: int, _: object) -> None:
        if number == signal.SIGHUP:
            self._tell(number, self._numbers)
        else:
            self._stop()

    def _stop(self) -> None:
        """The workers' sockets stay open for as long as they want; the parent's would keep the port open for ever."""
        if self._stopping:
            self._tell(AT_ONCE, self._numbers)
            return
        self._stopping = True
        for listening in (*self._listening, *self._common):
            listening.close()
        self._tell(DRAIN, self._numbers)

    def _tell(self, number: int, pids: Iterable[int]) -> None:
        for pid in tuple(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

"""Finds processes whose event loop gets no turn because what it called waits: for a disk, a lock, a name.

Such a loop uses no CPU, so the watch of `pulse.py` does not see it, and may not be able to do anything itself. Another
process looks instead, or where there is none another thread. What counts is the time that the loop's thread was asleep,
as the kernel's scheduler tells it: neither the time that it computed, nor the time that it was ready and waited for a
core, nor the time that the whole process was stopped, or the machine with it.
"""

import mmap
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

LOOK_S = 0.5
MOST_LOOK_S = 2 * LOOK_S
"""Who looks after a longer time was held up itself, or the machine slept: no more than this is known of it."""
_STOPPED = frozenset("Tt")
_TURNS = struct.Struct("q")
_NS = 1e9


class Heartbeats:
    """Beats of each process's loop, in memory that they and their parent share; 0: it does not run.

    Made before the processes are.
    """

    def __init__(self, processes: int = 1) -> None:
        self._memory = mmap.mmap(-1, _TURNS.size * processes)
        self._left = False

    def of(self, process: int) -> int:
        return int(_TURNS.unpack_from(self._memory, _TURNS.size * process)[0])

    def add(self, process: int) -> None:
        self._put(process, self.of(process) + 1)

    def end(self, process: int) -> None:
        self._put(process, 0)

    def leave(self) -> None:
        """Leaves what this process would write to another from now on."""
        self._left = True

    def _put(self, process: int, beats: int) -> None:
        if not self._left:
            _TURNS.pack_into(self._memory, _TURNS.size * process, beats)


class Asleep:
    """Watch over one thread; `look` time and again."""

    def __init__(
        self,
        pid: int,
        thread: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        scheduled: "Callable[[Path], float | None] | None" = None,
    ) -> None:
        self._at = Path(f"/proc/{pid}/task/{thread or pid}")
        self._clock = clock
        self._scheduled = scheduled or scheduled_s
        self._heartbeats = 0
        self._looked_s = clock()
        self._known_s = self._scheduled(self._at)
        self._asleep_s = 0.0

    def look(self, heartbeats: int) -> float:
        """Seconds that it slept since `heartbeats` was another number; 0 where the kernel does not tell."""
        now_s, known_s = self._clock(), self._scheduled(self._at)
        passed_s = min(now_s - self._looked_s, MOST_LOOK_S)
        if heartbeats != self._heartbeats or not heartbeats:
            self._asleep_s = 0.0
        elif known_s is not None and self._known_s is not None:
            self._asleep_s += max(0.0, passed_s - (known_s - self._known_s))
        self._heartbeats, self._looked_s, self._known_s = heartbeats, now_s, known_s
        return self._asleep_s


def scheduled_s(thread: Path) -> float | None:
    """Seconds that it ran, or was ready to; None where that is not told, or it is stopped."""
    try:
        if (thread / "stat").read_text().rpartition(")")[2].split()[0] in _STOPPED:
            return None
        ran, waited, *_ = (thread / "schedstat").read_text().split()
    except (OSError, ValueError):
        return None
    return (int(ran) + int(waited)) / _NS


def end_blocked(pid: int, seconds: float) -> None:
    """Makes the process write its stack and end, as `pulse.py` has prepared it."""
    message = f"cascadia: the event loop of process {pid} has waited {seconds:.0f} s for something; its stack follows"
    print(message, file=sys.stderr, flush=True)  # noqa: T201 (beside the stack, which is written there too)
    os.kill(pid, signal.SIGPROF)


def watch_own(heartbeats: Heartbeats, blocked_s: float) -> None:
    """Watches the main thread from another of this process. A call that waits and lets no other thread run is
    not seen.
    """
    pid = os.getpid()

    def looks() -> None:
        asleep = Asleep(pid)
        while True:
            time.sleep(LOOK_S)
            seconds = asleep.look(heartbeats.of(0))
            if seconds >= blocked_s:
                end_blocked(pid, seconds)
                return

    threading.Thread(target=looks, name="asleep", daemon=True).start()

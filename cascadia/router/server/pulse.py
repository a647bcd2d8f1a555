"""Ends this process where its event loop no longer gets its turn, with the stack of all threads in the log.

A loop that computes without end answers nobody, health checks and SIGTERM included, and nothing that it runs could say
so. The kernel can: its timer of the process's own CPU time is wound up again every so often, and ends the process where
it runs out. A machine that sleeps, or a process that is stopped, uses no CPU and is not taken for one that hangs. Among
several workers the parent then begins another (`workers.py`); a lone one is begun again by whoever looks after it.
A loop that waits instead of computing is found from outside: see `asleep.py`, which counts the turns told here.
"""

import asyncio
import faulthandler
import signal
from collections.abc import Callable

BEAT_S = 0.5
_STANDARD_ERROR = 2


def end_where_stalled(
    loop: asyncio.AbstractEventLoop, stall_s: float, turn: Callable[[], object] | None = None
) -> None:
    """Ends the process where its loop stalls for `stall_s`; 0: never. `turn` is called time and again, for
    whoever watches the loop from outside.
    """
    if not stall_s and turn is None:
        return
    # It writes from the signal itself, so also where Python code does not come to its turn; then the signal ends us.
    faulthandler.register(signal.SIGPROF, file=_STANDARD_ERROR, all_threads=True, chain=True)

    def beat() -> None:
        # PROF counts CPU time in the kernel too; VIRTUAL would miss a loop that spins in system calls.
        signal.setitimer(signal.ITIMER_PROF, stall_s)
        if turn is not None:
            turn()
        loop.call_later(BEAT_S, beat)

    beat()

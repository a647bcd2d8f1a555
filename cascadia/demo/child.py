"""Runs a command that dies with whoever started it: `python -m cascadia.demo.child PARENT CORE COMMAND ...`.

The kernel kills it when PARENT ends, however that came about, `kill -9` included, so nothing is left behind. CORE is
the one it is bound to, or `any`.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def become(parent: int, core: str, command: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        # The parent ended before the kernel was told to watch it.
        sys.exit(1)
    if core != "any":
        os.sched_setaffinity(0, {int(core)})
    os.execv(command[0], command)


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2], sys.argv[3:])

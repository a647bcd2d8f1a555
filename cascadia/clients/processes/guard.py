"""Keeps a program and all that it starts from outliving whoever started it.

`guard.py LOG MOST_BYTES GRACE_S -- ARGV...`: run as a file by a bare interpreter, so that it is small and quick.
Standard input is a pipe from the parent:

- a line `stop S`: SIGTERM to the program, and after S seconds SIGKILL to all that is left of its tree;
- its end: the parent is gone, however it went. SIGTERM, and SIGKILL after GRACE_S.

The guard is the tree's subreaper: descendants whose own parent dies become its children, so none gets away by
double forking. Should the guard itself be killed, the kernel kills the program (PR_SET_PDEATHSIG), and what else
there is falls to the guard's parent, which is a subreaper too and knows its own by a mark in their environment
(`MARK`). The guard ends as the program did (128 + n where signal n ended it), when nothing is left.

What the program writes goes to LOG. At MOST_BYTES that becomes LOG.1, in the place of the former, and LOG begins anew:
it is copied and cut, since the program holds it open, so a line written in between may be lost.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LOOK_S = 0.05
LOG_LOOK_S = 1.0
NOT_STARTED = 127
"""Exit code where the program is not there or cannot be run, as shells have it."""
MARK = "CASCADIA_TREE"
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def become_subreaper() -> None:
    """Orphans among this process's descendants become its children."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """Descendants of `root`, itself left out: parents before children."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    # The name may hold anything; after its closing bracket come state and parent.
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except OSError:
                continue  # it has ended
            if state != b"Z":
                children.setdefault(int(parent), []).append(int(entry))
    found: list[int] = []
    frontier = [root]
    while frontier:
        frontier = [pid for parent in frontier for pid in children.get(parent, [])]
        found += frontier
    return found


def marked(root: int, mark: str) -> list[int]:
    """Descendants of `root` whose environment began with `mark` as its MARK."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for pid in descendants(root):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if wanted in file.read().split(b"\0"):
                found.append(pid)
    return found


def kill_tree(root: int) -> None:
    """SIGKILL to all descendants of `root`, until there are none."""
    while pids := descendants(root):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        time.sleep(LOOK_S)


def _reap() -> None:
    """Takes leave of the dead that nobody else waits for."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _start(log: str, argv: list[str]) -> int:
    parent = os.getpid()
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        # What the guard ignores its program must hear, until it decides itself.
        for number in IGNORED:
            signal.signal(number, signal.SIG_DFL)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The guard may have gone before `prctl`, which tells of later deaths only.
        if os.getppid() != parent:
            os._exit(1)

    with open(log, "ab") as out:
        try:
            # A session of its own: a Ctrl-C at the terminal is for the parent, which drains first.
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=prepare,
            ).pid
        except OSError as error:
            out.write(f"cannot start {argv[0]}: {error.strerror}\n".encode())
            sys.exit(NOT_STARTED)


def _turn(log: str, most_bytes: int) -> None:
    with contextlib.suppress(OSError), open(log, "rb+") as current:
        if os.fstat(current.fileno()).st_size < most_bytes:
            return
        # Copied and cut, not renamed: the program keeps the file open, and appends wherever its end is.
        with open(f"{log}.1", "wb") as former:
            while part := current.read(1 << 20):
                former.write(part)
        current.truncate(0)


def _await(program: int, grace_s: float, log: str, most_bytes: int) -> int:
    """The program's exit status, as `waitpid` gives it."""
    look_at_log_s = 0.0
    kill_at_s: float | None = None
    told = b""
    listening = True
    while True:
        ready, _, _ = select.select([0] if listening else [], [], [], LOOK_S)
        if ready:
            part = os.read(0, 4096)
            told += part
            listening = bool(part)
            while b"\n" in told or not listening:
                line, _, told = told.partition(b"\n")
                wait_s = float(line[5:]) if line.startswith(b"stop ") else grace_s
                now_s = time.monotonic()
                kill_at_s = now_s + wait_s if kill_at_s is None else min(kill_at_s, now_s + wait_s)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(program, signal.SIGTERM)
                if not listening:
                    break
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == program:
                    return status
                if pid == 0:
                    break
        if time.monotonic() >= look_at_log_s:
            look_at_log_s = time.monotonic() + LOG_LOOK_S
            _turn(log, most_bytes)
        if kill_at_s is not None and time.monotonic() >= kill_at_s:
            with contextlib.suppress(ProcessLookupError):
                os.kill(program, signal.SIGKILL)


def main(arguments: list[str]) -> int:
    log, most_bytes, grace_s, _, *argv = arguments
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    become_subreaper()
    status = _await(_start(log, argv), float(grace_s), log, int(most_bytes))
    kill_tree(os.getpid())
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

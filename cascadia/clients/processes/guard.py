"""Keeps a program and all that it starts from outliving whoever started it.

`guard.py LOG MOST_BYTES GRACE_S -- ARGV...`: run as a file by a bare interpreter, so that it is small and quick.
Standard input is a pipe from the parent:

- a line `stop S`: SIGTERM to the program, and after S seconds SIGKILL to all that is left of its tree;
- its end: the parent is gone, however it went. SIGTERM, and SIGKILL after GRACE_S.

The guard is the tree's subreaper: descendants whose own parent dies become its children, so none gets away by
double forking. Should the guard itself be killed, the kernel kills the program (PR_SET_PDEATHSIG), and what else
there is falls to the guard's parent, which is a subreaper too and knows its own by a mark in their environment
(`MARK`). The guard ends as the program did (128 + n where signal n ended it), when nothing is left.

What the program writes comes through a pipe and goes to LOG. At MOST_BYTES that becomes LOG.1, in the place of the
former, and LOG begins anew, with a whole line. A program that held LOG open itself would go on to write into the
former one, or lose what it writes while that is copied and cut.
"""

import contextlib
import ctypes
import fcntl
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LOOK_S = 0.05
HEAR_S = 0.005
PIPE_BYTES = 1 << 20
"""What the program may write while the disk takes its time."""
F_SETPIPE_SZ = 1031
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


class Log:
    """The file at `path`, and once that would have more than `most_bytes` the former one beside it. Lines stay whole.

    A disk that is full takes nothing, and the program goes on.
    """

    def __init__(self, path: str, most_bytes: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._begin()

    def _begin(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._size = os.fstat(self._file).st_size
        self._ends_a_line = self._size > 0

    def write(self, part: bytes) -> None:
        while self._size + len(part) > self._most_bytes:
            whole = part.rfind(b"\n", 0, max(0, self._most_bytes - self._size)) + 1
            if not whole and not self._ends_a_line:
                whole = part.find(b"\n") + 1
                if not whole and self._size <= 2 * self._most_bytes:
                    break  # its end is yet to come
            self._write(part[:whole])
            part = part[whole:]
            if not self._turn():
                break
        self._write(part)

    def _write(self, part: bytes) -> None:
        with contextlib.suppress(OSError):
            while part:
                written = os.write(self._file, part)
                self._size += written
                self._ends_a_line = part.endswith(b"\n", 0, written)
                part = part[written:]

    def _turn(self) -> bool:
        former = self._file
        try:
            os.rename(self._path, f"{self._path}.1")
            self._begin()
        except OSError:
            return False
        os.close(former)
        return True


def _start(log: Log, argv: list[str]) -> tuple[int, int]:
    """The program's process, and where what it writes is read."""
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

    heard, says = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(says, True)
    with contextlib.suppress(OSError):
        fcntl.fcntl(heard, F_SETPIPE_SZ, PIPE_BYTES)
    try:
        # A session of its own: a Ctrl-C at the terminal is for the parent, which drains first.
        program = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=says,
            stderr=says,
            start_new_session=True,
            preexec_fn=prepare,
        )
    except OSError as error:
        log.write(f"cannot start {argv[0]}: {error.strerror}\n".encode())
        sys.exit(NOT_STARTED)
    os.close(says)
    return program.pid, heard


def _hear(heard: int, log: Log) -> bool:
    """Writes down a part of what the tree has written; False where there is no more, nor will be."""
    part = os.read(heard, PIPE_BYTES)
    log.write(part)
    return bool(part)


def _await(program: int, grace_s: float, heard: int, log: Log) -> int:
    """The program's exit status, as `waitpid` gives it."""
    hears = True
    kill_at_s: float | None = None
    told = b""
    listening = True
    while True:
        ready, _, _ = select.select([0] * listening + [heard] * hears, [], [], LOOK_S)
        if heard in ready:
            # Of a program that writes line by line many are taken together.
            time.sleep(HEAR_S)
            hears = _hear(heard, log)
        if 0 in ready:
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
        if kill_at_s is not None and time.monotonic() >= kill_at_s:
            with contextlib.suppress(ProcessLookupError):
                os.kill(program, signal.SIGKILL)


def main(arguments: list[str]) -> int:
    path, most_bytes, grace_s, _, *argv = arguments
    log = Log(path, int(most_bytes))
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    become_subreaper()
    program, heard = _start(log, argv)
    status = _await(program, float(grace_s), heard, log)
    kill_tree(os.getpid())
    with contextlib.suppress(BlockingIOError):
        while _hear(heard, log):
            pass
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

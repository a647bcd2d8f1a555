"""An engine that gets only a part of its core: its process is stopped and let go on in turn."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def slowed(port: int, awake_s: float, asleep_s: float) -> Iterator[None]:
    """The process that listens on `port`."""
    pid = _listening(port)
    ended = threading.Event()

    def stop_and_go() -> None:
        while not ended.is_set():
            os.kill(pid, signal.SIGSTOP)
            time.sleep(asleep_s)
            os.kill(pid, signal.SIGCONT)
            time.sleep(awake_s)

    thread = threading.Thread(target=stop_and_go)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=60)
        os.kill(pid, signal.SIGCONT)


def _listening(port: int) -> int:
    """The engine is the one process whose command line names the port."""
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(port).encode() in words:
            return int(process)
    raise AssertionError(f"no process with {port}")

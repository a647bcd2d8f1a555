"""The engine of a probe as a child of its front: they start together, and neither outlives the other."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cascadia.cli.judge.probe_engine import ProbeEngine
from cascadia.clients.processes.guard import PR_SET_PDEATHSIG
from cascadia.clients.processes.ports import HOST, free_port
from cascadia.domain.errors import BadInput, CascadiaError
from cascadia.files.scratch import scratch

if TYPE_CHECKING:
    import httpx

RAM_DISK = Path("/dev/shm")
LOOK_S = 0.2
STOP_S = 30.0
"""For an engine that is told to end, before it is killed."""


@contextmanager
def started(command: Sequence[str]) -> Iterator[ProbeEngine]:
    """The engine that `command` starts, once it answers. When it ends by itself so does this process, by SIGTERM.

    Its address and its slots' folder are given to it behind all that the command says. Raises `BadInput` where the
    command cannot be run, `CascadiaError` where the engine has ended.
    """
    import httpx

    port, parent, libc = free_port(), os.getpid(), ctypes.CDLL(None)

    def prepare() -> None:
        # However this process goes, an engine that nobody can reach must not keep its memory.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    # The server that comes has a way of its own to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with scratch("slots-", RAM_DISK if RAM_DISK.is_dir() else None) as slots:
        told = ("--host", HOST, "--port", str(port), "--slot-save-path", str(slots))
        try:
            engine = subprocess.Popen([*command, *told], stdin=subprocess.DEVNULL, preexec_fn=prepare)
        except OSError as error:
            raise BadInput(
                f"ENGINE {command[0]}", f"cannot be started ({error.strerror})", "name a llama.cpp server"
            ) from None
        ending = threading.Event()
        try:
            with httpx.Client(base_url=f"http://{HOST}:{port}", timeout=5.0, trust_env=False) as client:
                while not _healthy(client):
                    _check(engine)
                    time.sleep(LOOK_S)
            threading.Thread(target=_watch, args=(engine, ending), name="engine", daemon=True).start()
            yield ProbeEngine(f"http://{HOST}:{port}", slots)
            _check(engine)
        finally:
            ending.set()
            _end(engine)


def _healthy(client: "httpx.Client") -> bool:
    import httpx

    with contextlib.suppress(httpx.HTTPError):
        return client.get("/health").status_code == 200
    return False


def _check(engine: "subprocess.Popen[bytes]") -> None:
    if (code := engine.poll()) is not None:
        raise CascadiaError(f"the probe's engine ended with exit code {code}")


def _watch(engine: "subprocess.Popen[bytes]", ending: threading.Event) -> None:
    engine.wait()
    if not ending.is_set():
        os.kill(os.getpid(), signal.SIGTERM)


def _end(engine: "subprocess.Popen[bytes]") -> None:
    engine.terminate()
    try:
        engine.wait(STOP_S)
    except subprocess.TimeoutExpired:
        engine.kill()
        engine.wait()

"""Processes that are told to end at some moment, and what is left of them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAM = (sys.executable, "-c", "from cascadia.cli.entry import main; main()")
END_S = 2.0
"""A command may take so long to end."""


@dataclass(frozen=True)
class Ended:
    """`took_s`: from the signal to the end. `left`: names of what is unfinished, anywhere under the folder."""

    code: int
    stderr: str
    took_s: float
    left: list[str]


def interrupted(
    command: Sequence[str],
    folder: Path,
    number: int,
    after_s: float,
    *,
    ignored: bool = False,
    again_s: float = 0.0,
) -> Ended:
    """`command` run in `folder` and sent the signal `after_s` after it began to listen; again after `again_s`.

    `ignored`: its parent ignored SIGINT, as a shell does for what a script starts in the background.
    """

    def begin() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the suite may run under nohup
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | {"CASCADIA_CACHE_DIR": str(folder / "cache")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=begin,
    )
    try:
        while not _listens(process.pid) and process.poll() is None:
            time.sleep(0.002)
        time.sleep(after_s)
        sent_s = time.monotonic()
        process.send_signal(number)
        if again_s:
            time.sleep(again_s)
            process.send_signal(number)
        _, told = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait(timeout=60)
    left = [p.name for p in folder.rglob(".*") if p.name.startswith(".cascadia-") or p.suffix == ".part"]
    return Ended(process.returncode, told, time.monotonic() - sent_s, left)


def _listens(pid: int) -> bool:
    """Does the process handle SIGTERM?"""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True  # it has ended
    caught = next((line for line in text.splitlines() if line.startswith("SigCgt:")), "SigCgt: 0")
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def as_asked(ended: Ended, number: int) -> bool:
    """Did it end in time, with the signal's code, one line and nothing unfinished?"""
    words = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
    told = f"error: {words[signal.Signals(number)]}\n"
    return ended.code == 128 + number and ended.stderr == told and ended.took_s <= END_S and not ended.left

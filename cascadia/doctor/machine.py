"""The machine: system, cores, memory, GPUs and their driver, ports, file descriptors, kernels, clock."""

import ctypes
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path

from cascadia.clients.processes.ports import is_free
from cascadia.doctor.finding import Finding
from cascadia_sim.engine.jitted import is_kept
from cascadia_sim.hardware.cores import CGROUP, usable_cores

GIB = 1 << 30
LEAST_MEMORY_GIB = 4.0
"""Planning takes 1 to 2 GiB, the demo's engines 1.4."""
DESCRIPTORS = 4096
"""A router holds two for each request under way: its client's connection and its engine's."""
ROUTER_PORT, ENGINE_PORT = 8000, 8100
_TIME_ERROR = 5
_TIMEX_BYTES = 512
"""More than the kernel's struct timex has; all zeros asks and sets nothing."""

Ask = Callable[[Sequence[str]], str | None]


def ask(command: Sequence[str]) -> str | None:
    """Output of `command`; None where there is no such program, or it fails or hangs."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def machine(run: Ask = ask) -> Iterator[Finding]:
    """Findings about this machine; `run` asks its programs."""
    yield _system()
    yield memory()
    yield from _gpus(run)
    yield from _ports()
    yield _descriptors()
    yield kernels()
    yield _clock()


def _system() -> Finding:
    said = f"{platform.system()} {platform.release()}, Python {platform.python_version()}, {_cores()}"
    if platform.system() == "Linux":
        return Finding("system", "good", said)
    return Finding(
        "system", "note", said, "plan and simulate here; `up`, `demo` and engines need Linux (or WSL)"
    )


def _cores() -> str:
    machines, usable = os.cpu_count() or 1, usable_cores()
    return f"{machines} cores" if usable == machines else f"{machines} cores, {usable} of them usable here"


def memory(cgroup: Path = CGROUP) -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    usable = min(total, (_limit_bytes(cgroup) or inf) / GIB)
    said = f"{total:.1f} GiB" + (f", {usable:.1f} GiB of them usable here" if usable < total else "")
    if usable >= LEAST_MEMORY_GIB:
        return Finding("memory", "good", said)
    return Finding("memory", "note", said, f"{LEAST_MEMORY_GIB:g} GiB are enough to plan and for the demo")


def _limit_bytes(cgroup: Path) -> int | None:
    """Bytes that a container may take, by versions 2 and 1 of control groups; None where none are told."""
    for path in (cgroup / "memory.max", cgroup / "memory" / "memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            return int(path.read_text())
    return None


def _gpus(run: Ask) -> Iterator[Finding]:
    fields = "name,memory.total,memory.used,driver_version"
    told = run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"])
    rows = [
        [cell.strip() for cell in line.split(",")]
        for line in (told or "").splitlines()
        if line.count(",") == 3
    ]
    if not rows:
        there = os.path.exists("/proc/driver/nvidia/version")
        said = (
            "the driver is loaded, but nvidia-smi finds no GPU"
            if there
            else "no NVIDIA GPU that nvidia-smi finds"
        )
        yield Finding(
            "GPUs", "bad" if there else "note", said, "plan here, and serve elsewhere; or llama.cpp on cores"
        )
        return
    for at, (name, total, used, driver) in enumerate(rows):
        busy = _number(used) > 0.05 * max(_number(total), 1.0)
        said = f"{name}, {_number(total) / 1024:.0f} GiB, driver {driver}"
        if busy:
            yield Finding(
                f"GPU {at}", "bad", f"{said}; {_number(used) / 1024:.1f} GiB are in use", "end what uses it"
            )
        else:
            yield Finding(f"GPU {at}", "good", said)


def _ports() -> Iterator[Finding]:
    for number, who in ((ROUTER_PORT, "router"), (ENGINE_PORT, "first engine")):
        if is_free(number):
            yield Finding(f"port {number}", "good", f"free for the {who}")
        elif number == ROUTER_PORT:
            yield Finding(
                f"port {number}", "bad", f"taken; it is the {who}'s", "end what listens, or `up --port N`"
            )
        else:
            yield Finding(f"port {number}", "note", f"taken; it is the {who}'s", "the next free one is used")


def _descriptors() -> Finding:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard != resource.RLIM_INFINITY else 1 << 30
    said = (
        f"{soft:,} open files, at most {most:,}" if hard != resource.RLIM_INFINITY else f"{soft:,} open files"
    )
    if most >= DESCRIPTORS:
        return Finding("descriptors", "good", said)
    return Finding(
        "descriptors", "bad", said, f"`ulimit -Hn {DESCRIPTORS}`: a router holds two a request under way"
    )


def kernels() -> Finding:
    if is_kept():
        return Finding("kernels", "good", "compiled once, and kept on disk")
    said = "compiled anew by each command, a minute's work: no folder for them can be written"
    return Finding("kernels", "note", said, "set NUMBA_CACHE_DIR to one that can")


def _clock() -> Finding:
    """Asks the kernel whether anything keeps its clock: traces, budgets and several routers are told apart by it."""
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return Finding("clock", "note", "not known whether anything keeps it", "run NTP")
    if state in (-1, _TIME_ERROR):
        return Finding("clock", "note", "nothing keeps it right", "run chrony or systemd-timesyncd")
    return Finding("clock", "good", "kept by NTP")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0

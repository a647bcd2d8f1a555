"""Real engines as processes of their own, on one core, so that the client's work does not slow them."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from cascadia.clients.processes.ports import free_port
from tests.e2e.engine_commands import llama_command
from tests.e2e.engine_packages import checkpoint, vllm_python

START_S = 180.0
CONTEXT = 2048
KV_BYTES = 268_435_456
NAME = "smol"
CORES = sorted(os.sched_getaffinity(0))


@contextmanager
def llama_cpp(slots: int, log: Path) -> Iterator[str]:
    """Its address, while it runs: continuous batching over `slots` slots with a cache each."""
    port = free_port()
    with running(llama_command(port, slots, CONTEXT), {}, port, log) as url:
        yield url


@contextmanager
def vllm(max_num_seqs: int, log: Path) -> Iterator[str]:
    python, port = vllm_python(), free_port()
    command = [python.with_name("vllm"), "serve", checkpoint(python), "--host", "127.0.0.1", "--port", port]
    command += ["--served-model-name", NAME, "--max-model-len", CONTEXT, "--max-num-seqs", max_num_seqs]
    command += ["--max-num-batched-tokens", CONTEXT, "--kv-cache-memory-bytes", KV_BYTES, "--enforce-eager"]
    settings = {
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_CPU_OMP_THREADS_BIND": str(CORES[0]),
    }
    with running([str(part) for part in command], settings, port, log) as url:
        yield url


@contextmanager
def running(
    command: list[str], settings: dict[str, str], port: int, log: Path, core: int = CORES[0]
) -> Iterator[str]:
    url = f"http://127.0.0.1:{port}"
    with log.open("w") as out:
        engine = subprocess.Popen(
            command, env=os.environ | settings, stdout=out, stderr=out, start_new_session=True
        )
        try:
            os.sched_setaffinity(engine.pid, {core})
            _as_urgent_as_we(engine.pid)
            _wait_for(url, engine, log)
            yield url
        finally:
            # The whole group: an API server that is killed alone leaves its workers behind.
            os.killpg(engine.pid, signal.SIGTERM)
            try:
                engine.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(engine.pid, signal.SIGKILL)
                engine.wait(timeout=60)


@contextmanager
def beside_the_engine() -> Iterator[None]:
    """This process, and what it starts, keep off the engine's core, where there is another."""
    os.sched_setaffinity(0, set(CORES[1:] or CORES))
    try:
        yield
    finally:
        os.sched_setaffinity(0, set(CORES))


def others_s() -> float:
    """Seconds since the machine's start that the engine's core worked for anybody but what is pinned to it.

    What a hypervisor gave to somebody else counts too.
    """
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    line = next(
        one for one in Path("/proc/stat").read_text().splitlines() if one.startswith(f"cpu{CORES[0]} ")
    )
    user, nice, system, _, _, irq, softirq, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + softirq + steal - _pinned_ticks()) / ticks_per_s


def _pinned_ticks() -> int:
    found = 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.sched_getaffinity(int(process)) == {CORES[0]}:
                # After the name, which may hold anything: state is field 3, utime and stime are 14 and 15.
                fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                found += int(fields[11]) + int(fields[12])
        except OSError:
            continue  # it has ended
    return found


def _as_urgent_as_we(pid: int) -> None:
    """Linux shares the processor among sessions, and the engine's is new: it gets our session's priority."""
    try:
        nice = Path("/proc/self/autogroup").read_text().split()[-1]
        Path(f"/proc/{pid}/autogroup").write_text(nice)
    except OSError:
        pass  # no such sharing here, or not ours to change


def _wait_for(url: str, engine: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        assert engine.poll() is None, log.read_text()[-2000:]
        try:
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    raise AssertionError(f"not up after {START_S:.0f} s: {log.read_text()[-2000:]}")

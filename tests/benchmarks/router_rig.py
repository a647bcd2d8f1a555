"""A router on a core of its own, its mock engine and its load on the other, and what each round of requests costs."""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import uvloop

from tests.benchmarks.router_load import Load, closed_loop

ROUTER_CORE = int(os.environ.get("ROUTER_CORE", "0"))
LOAD_CORE = 1 - ROUTER_CORE
PROGRAM = Path(sys.executable).with_name("cascadia")
SAID = {"messages": [{"role": "user", "content": "What is two and two? " * 10}]}


class Running(NamedTuple):
    """A router, or an engine alone (`pid` None). `key` is sent with each request."""

    name: str
    port: int
    pid: int | None
    key: str | None = None


@contextmanager
def process(
    *command: str | Path, core: int, environment: Mapping[str, str] | None = None, heard: bool = True
) -> Iterator[subprocess.Popen[str]]:
    """`heard`: its standard output is read here; a program that writes more than is read would stand still."""
    running = subprocess.Popen(
        ["taskset", "-c", str(core), *map(str, command)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if heard else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            running.kill()
            running.communicate(timeout=60)


@contextmanager
def mock_engine(*arguments: str) -> Iterator[int]:
    """Its port."""
    with process(sys.executable, "-m", "tests.benchmarks.router_mock", *arguments, core=LOAD_CORE) as mock:
        assert mock.stdout is not None
        yield int(mock.stdout.readline())


@contextmanager
def floor_running(engine: int) -> Iterator[Running]:
    """What passes bytes on between sockets, and does nothing else."""
    module = ("-m", "tests.benchmarks.router_floor", str(engine))
    with process(sys.executable, *module, core=ROUTER_CORE) as floor:
        assert floor.stdout is not None
        yield Running("bytes passed on unread", int(floor.stdout.readline()), floor.pid)


@contextmanager
def cascadia(
    engine: int, *options: str, core: int = ROUTER_CORE, places: int = 100_000, **more: Any
) -> Iterator[Running]:
    """Ours, with keys, limits per key, metrics and a line a request. An engine takes `places` requests at a time;
    `more` is put into router.yaml."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys = folder / "keys.json"
        limits = ["--requests-per-minute", "1000000000", "--tokens-per-minute", "1000000000000"]
        added = [
            PROGRAM,
            "keys",
            "add",
            keys,
            "--name",
            "bench",
            "--scope",
            "inference",
            "--scope",
            "metrics",
        ]
        made = subprocess.run(
            [*added, *limits, "--concurrent", "1000000", "--json"],
            capture_output=True,
            check=True,
            timeout=3600,
        )
        key = json.loads(made.stdout)["key"]
        path = folder / "router.yaml"
        path.write_text(json.dumps(router_yaml(engine, places) | {"keys": {"file": str(keys)}} | more))
        with process(PROGRAM, "serve", path, "--port", "0", "--json", *options, core=core) as router:
            running = Running("cascadia", told_port(router), router.pid, key)
            if not answers(running.port, "/ready", 30):
                raise RuntimeError("the router is not ready within 30 s")
            yield running


def router_yaml(engine: int, places: int) -> dict[str, Any]:
    replica = [{"url": f"http://127.0.0.1:{engine}", "max_concurrency": places}]
    stages = [
        {"name": "small", "model": "small", "threshold": 50, "replicas": replica},
        {"name": "large", "model": "large", "replicas": replica},
    ]
    return {"stages": stages, "judge": {"kind": "llm", "cache_size": 0, "replicas": replica}}


@contextmanager
def stopped(routers: Iterable[Running], but: Running) -> Iterator[None]:
    """Stops all routers but the one that is measured, on whose core they are: the few milliseconds that one of them
    takes for itself every other second would be the other's delay."""
    pids = {router.pid for router in routers if router.pid is not None} - {but.pid}
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@dataclass
class Case:
    """One kind of load on one router; `loads` of its rounds, `cpu_us` of the router for each request of a round."""

    router: Running
    connections: int
    body: dict[str, object]
    loads: list[Load] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def round(self, seconds: float) -> None:
        pid = self.router.pid
        before_s = cpu_s(pid) if pid else 0.0
        load = uvloop.run(
            closed_loop(self.router.port, self.body, self.connections, seconds, self.router.key)
        )
        spent_s = cpu_s(pid) - before_s if pid else 0.0
        self.loads.append(load)
        self.cpu_us.append(1e6 * spent_s / max(1, len(load.latency_s)))

    @property
    def rps(self) -> float:
        return median(load.rps for load in self.loads)

    def quantile_us(self, q: float) -> float:
        return median(load.quantile_us(q) for load in self.loads)

    @property
    def bad(self) -> int:
        return sum(load.bad for load in self.loads)

    def row(self, name: str) -> tuple[str, ...]:
        figures = (self.rps, self.quantile_us(0.5), self.quantile_us(0.99), median(self.cpu_us), self.bad)
        return (name, *(f"{figure:,.0f}" for figure in figures))


COLUMNS = ("", "requests/s", "p50 µs", "p99 µs", "CPU of the router, µs a request", "bad")


def ratio(ours: list[float], theirs: list[float]) -> float:
    """The median over rounds of ours to theirs: what disturbs a round disturbs both."""
    return median(mine / other for mine, other in zip(ours, theirs, strict=True))


def verdict(what: str, found: float, asked: float, *, least: bool, unit: str = "×") -> tuple[str, bool]:
    kept = found >= asked if least else found <= asked
    sign = ">=" if least else "<="
    return f"{'PASS' if kept else 'FAIL'}: {what}: {found:,.2f}{unit}, asked {sign} {asked:g}{unit}", kept


def told_port(router: subprocess.Popen[str]) -> int:
    assert router.stdout is not None
    document = ""
    while not document.endswith("}\n"):
        line = router.stdout.readline()
        if not line:
            raise RuntimeError("the router ended before it said where it serves")
        document += line
    return int(json.loads(document)["url"].rpartition(":")[2])


def answers(port: int, path: str, seconds: float) -> bool:
    """Whether `path` answers 200 within that time."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        asking = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            asking.request("GET", path)
            if asking.getresponse().status == 200:
                return True
        except OSError:
            pass
        finally:
            asking.close()
        time.sleep(0.2)
    return False

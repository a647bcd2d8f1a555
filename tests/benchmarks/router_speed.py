"""What the router costs beside its engine: requests a second on one core, and the latency that it adds.

The router has one core (`ROUTER_CORE`, 0 or 1); a mock engine and the load share the other.
`python -m tests.benchmarks.router_speed` prints a table. `--peer "PROGRAM ... {port} ... {engine} ... {metrics}"`
starts another router on the same core, to be measured in turn with ours, e.g. `vllm-router --host 127.0.0.1 --port
{port} --worker-urls http://127.0.0.1:{engine} --policy round_robin --prometheus-port {metrics}`.
"""

import argparse
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import uvloop

from tests.benchmarks.router_load import Load, closed_loop

SECONDS = 2.0
ROUNDS = 3
MANY = 32
SETTLE_S = 2.0
ROUTER_CORE = int(os.environ.get("ROUTER_CORE", "0"))
PROGRAM = Path(sys.executable).with_name("cascadia")
SAID = {"messages": [{"role": "user", "content": "What is two and two? " * 10}]}


@contextmanager
def process(*command: str | Path, core: int) -> Iterator[subprocess.Popen[str]]:
    running = subprocess.Popen(
        ["taskset", "-c", str(core), *map(str, command)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield running
    finally:
        running.terminate()
        running.communicate()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def router_yaml(port: int) -> str:
    replica = [{"url": f"http://127.0.0.1:{port}"}]
    stages = [
        {"name": "small", "model": "small", "threshold": 50, "replicas": replica},
        {"name": "large", "model": "large", "replicas": replica},
    ]
    return json.dumps({"stages": stages, "judge": {"kind": "llm", "cache_size": 0, "replicas": replica}})


class Measured:
    """The rounds of one case; a row of the table."""

    def __init__(self, name: str, port: int, pid: int | None, connections: int, **body: object) -> None:
        self.name, self.port, self.pid, self.connections = name, port, pid, connections
        self.body = {"model": "small", "stream": False} | SAID | body
        self.loads: list[Load] = []
        self.cpu_us: list[float] = []

    def round(self) -> None:
        before_s = cpu_s(self.pid) if self.pid else 0.0
        load = uvloop.run(closed_loop(self.port, self.body, self.connections, SECONDS))
        spent_s = cpu_s(self.pid) - before_s if self.pid else 0.0
        self.loads.append(load)
        self.cpu_us.append(1e6 * spent_s / max(1, len(load.latency_s)))

    def row(self) -> str:
        figures = (
            median(load.rps for load in self.loads),
            median(load.quantile_us(0.5) for load in self.loads),
            median(load.quantile_us(0.99) for load in self.loads),
            median(self.cpu_us),
            sum(load.bad for load in self.loads),
        )
        return f"{self.name:44}" + "".join(f"{figure:10.0f}" for figure in figures)


def cases(engine: int, port: int, pid: int) -> list[Measured]:
    return [
        Measured("engine alone, 1 connection", engine, None, 1),
        Measured("straight, 1 connection", port, pid, 1),
        Measured(f"engine alone, {MANY} connections", engine, None, MANY),
        Measured(f"straight, {MANY} connections", port, pid, MANY),
        Measured(f"straight, 50-chunk streams, {MANY} connections", port, pid, MANY, stream=True),
        Measured("cascade, accepted by the judge", port, pid, MANY, model="cascadia"),
        Measured("cascade, refused, second stage", port, pid, MANY, model="cascadia", quality_min=90),
    ]


def peer_cases(port: int, pid: int) -> list[Measured]:
    return [
        Measured("peer, 1 connection", port, pid, 1),
        Measured(f"peer, {MANY} connections", port, pid, MANY),
        Measured(f"peer, 50-chunk streams, {MANY} connections", port, pid, MANY, stream=True),
    ]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def told_port(router: subprocess.Popen[str]) -> int:
    assert router.stdout is not None
    document = ""
    while not document.endswith("}\n"):
        document += router.stdout.readline()
    return int(json.loads(document)["url"].rpartition(":")[2])


def measure(engine: int, port: int, pid: int, peer: str | None) -> None:
    found = cases(engine, port, pid)
    if peer is None:
        report(found)
        return
    places = {"port": free_port(), "engine": engine, "metrics": free_port()}
    with process(*shlex.split(peer.format(**places)), core=ROUTER_CORE) as other:
        time.sleep(2 * SETTLE_S)
        report(found + peer_cases(places["port"], other.pid))


def report(found: list[Measured]) -> None:
    for _ in range(ROUNDS):
        for case in found:
            case.round()
    print(" " * 44 + "".join(f"{head:>10}" for head in ("req/s", "p50 us", "p99 us", "CPU us", "bad")))
    for case in found:
        print(case.row())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", help="command line of another router")
    given = parser.parse_args()
    os.sched_setaffinity(0, {1 - ROUTER_CORE})
    mocked = process(sys.executable, "-m", "tests.benchmarks.router_mock", core=1 - ROUTER_CORE)
    with mocked as mock, tempfile.TemporaryDirectory() as folder:
        assert mock.stdout is not None
        engine = int(mock.stdout.readline())
        path = Path(folder) / "router.yaml"
        path.write_text(router_yaml(engine))
        with process(PROGRAM, "serve", path, "--port", "0", "--json", core=ROUTER_CORE) as router:
            port = told_port(router)
            time.sleep(SETTLE_S)
            measure(engine, port, router.pid, given.peer)


if __name__ == "__main__":
    main()

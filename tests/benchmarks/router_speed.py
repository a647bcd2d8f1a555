"""What the router costs beside its engine: requests a second on one core, and the latency that it adds.

The router has one core (`ROUTER_CORE`, 0 or 1); a mock engine and the load share the other.
`python -m tests.benchmarks.router_speed` prints a table.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from tests.benchmarks.router_load import Load, closed_loop

SECONDS = 3.0
MANY = 32
ROUTER_CORE = int(os.environ.get("ROUTER_CORE", "0"))
PROGRAM = Path(sys.executable).with_name("cascadia")


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
    return json.dumps({"stages": stages, "judge": {"kind": "llm", "replicas": replica}})


def measure(port: int, pid: int | None, body: dict[str, object], connections: int) -> tuple[Load, float]:
    before_s = cpu_s(pid) if pid else 0.0
    load = uvloop.run(closed_loop(port, body, connections, SECONDS))
    return load, (cpu_s(pid) - before_s if pid else 0.0)


def row(name: str, load: Load, spent_s: float) -> None:
    per_request_us = 1e6 * spent_s / max(1, len(load.latency_s))
    print(
        f"{name:44} {load.rps:9.0f} {load.quantile_us(0.5):9.0f} {load.quantile_us(0.99):9.0f} "
        f"{per_request_us:9.0f} {load.bad:5d}"
    )


def main() -> None:
    os.sched_setaffinity(0, {1 - ROUTER_CORE})
    said = {"messages": [{"role": "user", "content": "What is two and two? " * 10}]}
    with process(sys.executable, "-m", "tests.benchmarks.router_mock", core=1 - ROUTER_CORE) as mock:
        assert mock.stdout is not None
        engine = int(mock.stdout.readline())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "router.yaml"
            path.write_text(router_yaml(engine))
            with process(PROGRAM, "serve", path, "--port", "0", "--json", core=ROUTER_CORE) as router:
                assert router.stdout is not None
                document = ""
                while not document.endswith("}\n"):
                    document += router.stdout.readline()
                port = int(json.loads(document)["url"].rpartition(":")[2])
                uvloop.run(asyncio.sleep(1.0))
                print(f"{'':44} {'req/s':>9} {'p50 us':>9} {'p99 us':>9} {'CPU us':>9} {'bad':>5}")
                for name, at, pid, model, stream, connections in [
                    ("engine alone, 1 connection", engine, None, "small", False, 1),
                    ("straight, 1 connection", port, router.pid, "small", False, 1),
                    ("engine alone, 32 connections", engine, None, "small", False, MANY),
                    ("straight, 32 connections", port, router.pid, "small", False, MANY),
                    ("straight, 50-chunk streams, 32 connections", port, router.pid, "small", True, MANY),
                    ("cascade, accepted by the judge", port, router.pid, "cascadia", False, MANY),
                    ("cascade, refused, second stage", port, router.pid, "cascadia 90", False, MANY),
                ]:
                    model, _, bar = model.partition(" ")
                    own = {"quality_min": int(bar)} if bar else {}
                    body = said | {"model": model, "stream": stream} | own
                    load, spent_s = measure(at, pid, body, connections)
                    row(name, load, spent_s)


if __name__ == "__main__":
    main()

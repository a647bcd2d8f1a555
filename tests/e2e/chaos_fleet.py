"""Engines and routers as child processes, to be killed, stopped and told to fail while they serve."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from cascadia.clients.processes.ports import free_port
from tests.e2e.commands import PROGRAM

START_S = 30.0
STAGES = {"small": 2, "large": 2}
HEALTH = {"interval_s": 0.5, "again_s": 0.2, "timeout_s": 1.0, "failures": 3}
LIMITS = {"first_byte_s": 1.0, "idle_s": 1.0, "connect_s": 0.5}


@dataclass
class Process:
    """`port` stays its own when it is started again."""

    name: str
    port: int
    command: list[str]
    log: Path
    running: "subprocess.Popen[bytes] | None" = None
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def start(self) -> None:
        with self.log.open("ab") as out:
            self.running = subprocess.Popen(self.command, stdout=out, stderr=out, start_new_session=True)
        until = time.monotonic() + START_S
        while True:
            try:
                with socket.create_connection((self.host, self.port), timeout=1):
                    return
            except OSError:
                assert self.running.poll() is None, self.log.read_text()[-2000:]
                assert time.monotonic() < until, f"{self.name} is not up after {START_S:.0f} s"
                time.sleep(0.02)

    def send(self, number: signal.Signals) -> None:
        assert self.running is not None
        self.running.send_signal(number)

    def kill(self) -> None:
        """As `kill -9` and the kernel's out-of-memory killer do."""
        if self.running is not None:
            self.running.kill()
            self.running.wait(timeout=60)
            self.running = None

    def told(self, mode: str) -> None:
        httpx.put(f"{self.url}/chaos", json={"mode": mode}, timeout=10, trust_env=False).raise_for_status()


@dataclass
class Fleet:
    """Two stages of two replicas, a judge, and a router in front of them."""

    folder: Path
    work_s: float = 0.02
    slots: int = 1000
    settings: dict[str, Any] = field(default_factory=dict)
    stages: dict[str, Any] = field(default_factory=dict)
    """What is told of each stage."""
    engines: dict[str, list[Process]] = field(default_factory=dict)
    routers: list[Process] = field(default_factory=list)

    def start(self, routers: int = 1) -> None:
        for stage, count in {**STAGES, "judge": 1}.items():
            self.engines[stage] = [self._engine(stage, i) for i in range(count)]
        for engine in self.all_engines:
            engine.start()
        port = free_port()
        for i in range(routers):
            self.routers.append(self.router(port, i, ["--reuse-port"] if routers > 1 else []))
            self.routers[-1].start()
        self.until_ready()

    @property
    def all_engines(self) -> list[Process]:
        return [engine for group in self.engines.values() for engine in group]

    @property
    def port(self) -> int:
        return self.routers[0].port

    def router(self, port: int, number: int, flags: list[str]) -> Process:
        path = self.folder / "router.yaml"
        path.write_text(json.dumps(self.document()))
        command = [str(PROGRAM), "serve", str(path), "--port", str(port), *flags]
        return Process(f"router-{number}", port, command, self.folder / f"router-{number}.log")

    def document(self) -> dict[str, Any]:
        """As router.yaml: JSON is YAML."""
        replicas = {
            stage: [{"url": engine.url} for engine in engines] for stage, engines in self.engines.items()
        }
        small = {"name": "small", "threshold": 50, "replicas": replicas["small"], **self.stages}
        large = {"name": "large", "replicas": replicas["large"], **self.stages}
        # No verdict is known from before: the judge is asked each time.
        judge = {"kind": "llm", "replicas": replicas["judge"], "cache_size": 0, "timeout_s": 1.0}
        found = {"stages": [small, large], "judge": judge, "limits": LIMITS, "health": HEALTH}
        for name, more in self.settings.items():
            found[name] = {**found.get(name, {}), **more} if isinstance(more, dict) else more
        return found

    def state(self) -> dict[str, Any]:
        answer = httpx.get(f"http://127.0.0.1:{self.port}/ready", timeout=10, trust_env=False)
        return dict(answer.json())

    def until_ready(self) -> None:
        """Every replica is, and none is left alone: a breaker closes when a request goes well."""
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            try:
                self.ask("easy")
                self.ask("hard")
                replicas = [r for s in self.state()["stages"].values() for r in s["replicas"].values()]
            except (httpx.TransportError, ValueError):
                replicas = [{"state": "none"}]
            if all(r["state"] == "ready" and r["breaker"] == "closed" for r in replicas):
                return
            time.sleep(0.1)
        raise AssertionError(f"not ready after {START_S:.0f} s: {self.state()}")

    def ask(self, question: str) -> httpx.Response:
        body = {"model": "cascadia", "messages": [{"role": "user", "content": question}]}
        url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        return httpx.post(url, json=body, timeout=30, trust_env=False)

    def heal(self) -> None:
        """Every engine runs and does well."""
        for engine in self.all_engines:
            if engine.running is None:
                engine.start()
            engine.send(signal.SIGCONT)
            engine.told("fine")

    def stop(self) -> None:
        for process in [*self.routers, *self.all_engines]:
            process.kill()

    def _engine(self, stage: str, number: int) -> Process:
        return self.engine_at(stage, number, "127.0.0.1", free_port())

    def engine_at(self, stage: str, number: int, host: str, port: int) -> Process:
        program = [sys.executable, "-m", "tests.e2e.chaos_engine", stage, str(port), str(self.work_s)]
        log = self.folder / f"{stage}-{number}.log"
        return Process(f"{stage}-{number}", port, [*program, str(self.slots), host], log, host=host)


@contextmanager
def fleet(folder: Path, routers: int = 1, **more: Any) -> Iterator[Fleet]:
    found = Fleet(folder, **more)
    try:
        found.start(routers)
        yield found
    finally:
        found.stop()


def rss_bytes(process: Process) -> int:
    """Memory that it holds now."""
    assert process.running is not None
    pages = int(Path(f"/proc/{process.running.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")

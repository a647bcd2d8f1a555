"""Real processes: they end when the demo does, however it does."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cascadia.clients.processes.ports import free_port
from cascadia.demo.children import Child, Children
from cascadia.domain.errors import CascadiaError

SERVES = """
import http.server, sys
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
"""
STUBBORN = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + SERVES
LIMIT_S = 60.0


def serving(port: int, program: str = SERVES) -> list[str]:
    return [sys.executable, "-c", program, str(port)]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def until_gone(pid: int) -> None:
    until_s = time.monotonic() + LIMIT_S
    while alive(pid):
        assert time.monotonic() < until_s, f"{pid} is still there"
        os.sched_yield()


def test_a_child_is_waited_for_and_stopped(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        port = free_port()
        child = children.start("one", serving(port), port)
        children.wait(limit_s=300)
        assert child.process.poll() is None
        assert child.cpu_s > 0
    assert child.process.returncode == 128 + signal.SIGTERM
    assert child.cpu_s == 0.0


def test_a_proxy_of_the_environment_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with Children(tmp_path) as children:
        port = free_port()
        children.start("one", serving(port), port)
        children.wait(limit_s=LIMIT_S)


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="this kernel counts no waiting for a core"
)
def test_who_shares_a_core_is_seen_to_wait_for_it(tmp_path: Path) -> None:
    spins = [sys.executable, "-c", "while True: pass"]
    core = min(os.sched_getaffinity(0))
    with Children(tmp_path) as children:
        both = [children.start(f"spins-{number}", spins, 0, core) for number in range(2)]
        until_s = time.monotonic() + LIMIT_S
        while min(child.cpu_s for child in both) < 0.2:
            assert time.monotonic() < until_s
            os.sched_yield()
        assert all(child.waiting_share > 0.3 for child in both)
    assert both[0].waiting_share == 0.0


def test_an_error_stops_them_too(tmp_path: Path) -> None:
    port = free_port()
    children = Children(tmp_path)

    def fails() -> None:
        with children:
            started.append(children.start("one", serving(port), port))
            raise RuntimeError

    started: list[Child] = []
    with pytest.raises(RuntimeError):
        fails()
    assert started[0].process.returncode is not None


def test_one_that_does_not_listen_to_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cascadia.demo.children.STOP_S", 0.1)
    with Children(tmp_path) as children:
        port = free_port()
        child = children.start("stubborn", serving(port, STUBBORN), port)
        children.wait(limit_s=300)
    assert child.process.returncode == 128 + signal.SIGKILL


def test_one_that_ends_is_named_with_what_it_said_last(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        children.start("engine", [sys.executable, "-c", "import sys; sys.exit('no such model')"], free_port())
        with pytest.raises(
            CascadiaError, match=r"^engine ended with code 1: no such model \(.*engine\.log\)$"
        ):
            children.wait(limit_s=300)


def test_one_that_never_gets_ready_is_named(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        children.start("engine", [sys.executable, "-c", "import signal; signal.pause()"], free_port())
        with pytest.raises(CascadiaError, match="engine is not ready after 0 s: it said nothing"):
            children.wait(limit_s=0.2)


def test_a_child_has_its_own_core(tmp_path: Path) -> None:
    core = max(os.sched_getaffinity(0))
    with Children(tmp_path) as children:
        port = free_port()
        child = children.start("one", serving(port), port, core)
        children.wait(limit_s=300)
        assert child.pid is not None
        assert os.sched_getaffinity(child.pid) == {core}


def test_none_outlives_a_demo_that_is_killed(tmp_path: Path) -> None:
    port = free_port()
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from cascadia.demo.children import Children\n"
            "with Children(Path(sys.argv[1])) as children:\n"
            "    child = children.start('one', sys.argv[3:], int(sys.argv[2]))\n"
            "    children.wait(); print(child.pid, flush=True); sys.stdin.read()",
            str(tmp_path),
            str(port),
            *serving(port),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    parent.communicate(timeout=60)
    until_gone(pid)

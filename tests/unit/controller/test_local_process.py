"""A program runs under a guard: restarted when it dies, and gone with all its children when it should be."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cascadia.clients.processes.guard import Log, descendants
from cascadia.clients.processes.ports import free_port, listen
from cascadia.clients.processes.process import LocalProcess, Program, Restarts, guarded
from tests.data import ROOT

pytestmark = pytest.mark.slow

ENGINE = ROOT / "tests" / "unit" / "controller" / "little_engine.py"
QUICK = Restarts(first_s=0.02, longest_s=0.05, most=3)


def program(*more: str, **changes: object) -> Program:
    port = free_port()
    argv = (sys.executable, str(ENGINE), str(port), *more)
    return Program("one", argv, port, **{"drain_s": 5.0, **changes})  # type: ignore[arg-type]


def said(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


async def until(true: Callable[[], bool], within_s: float = 60.0) -> None:
    async with asyncio.timeout(within_s):
        while not true():
            await asyncio.sleep(0.01)


def run(
    scenario: Callable[[LocalProcess], object], tmp_path: Path, given: Program, **options: object
) -> None:
    async def main() -> None:
        process = LocalProcess(given, tmp_path / "one.log", look_s=0.02, **options)  # type: ignore[arg-type]
        process.start()
        try:
            await scenario(process)  # type: ignore[misc]
        finally:
            await process.stop(0.0)

    asyncio.run(main())


def test_it_is_ready_when_it_answers_and_gone_when_it_was_stopped(tmp_path: Path) -> None:
    async def scenario(process: LocalProcess) -> None:
        await until(lambda: process.state == "ready")
        (first,) = said(process.log)
        await process.stop()
        assert process.state == "stopped"
        assert not alive(int(str(first["pid"])))

    run(scenario, tmp_path, program())


def test_a_log_that_is_full_becomes_the_former_one(tmp_path: Path) -> None:
    writes = (
        "import itertools, time\nfor i in itertools.count():\n    print(i, flush=True); time.sleep(0.0005)"
    )

    async def scenario(process: LocalProcess) -> None:
        former = tmp_path / "one.log.1"
        await until(former.exists)
        await until(lambda: process.log.read_text().count("\n") > 20)
        assert process.log.stat().st_size < 50_000
        assert former.read_text().startswith("0\n1\n2\n")
        assert int(process.log.read_text().split()[1]) > 100, "and it goes on where that ends"

    given = Program("one", (sys.executable, "-c", writes), free_port(), health_path=None, drain_s=5.0)
    run(scenario, tmp_path, given, log_bytes=1000)


def test_no_line_is_lost_or_cut_where_a_log_becomes_the_former_one(tmp_path: Path) -> None:
    writes = "for i in range(60_000):\n    print(i, flush=i % 7 == 0)\nprint('end', end='')"
    log = tmp_path / "one.log"
    log.write_text("earlier\n")
    guard = guarded([sys.executable, "-c", writes], log, log_bytes=200_000)
    # It ends its program where its standard input does.
    with subprocess.Popen(guard, stdin=subprocess.PIPE) as running:
        assert running.wait(60) == 0
    former = (tmp_path / "one.log.1").read_text()
    assert 199_990 < len(former) <= 200_000
    assert former.endswith("\n")
    assert (former + log.read_text()).splitlines() == ["earlier", *map(str, range(60_000)), "end"]


@pytest.mark.parametrize(
    "parts",
    [
        [b"one\n", b"two\n" * 50, b"", b"three"],
        [b"a" * 35 + b"\n", b"b\n", b"c" * 25, b"c" * 30, b"\nd\n"],
        [b"a\nb\n" * 9, b"c\n", b"\n" * 41],
        [b"a" * 21, b"a" * 30, b"a" * 30],
    ],
)
def test_a_log_has_all_lines_whole_however_they_come(tmp_path: Path, parts: list[bytes]) -> None:
    path, found = tmp_path / "one.log", []

    class Kept(Log):
        def _turn(self) -> bool:
            found.append(path.read_bytes())
            return super()._turn()

    log = Kept(str(path), 20)
    for part in parts:
        log.write(part)
    found.append(path.read_bytes())
    assert b"".join(found) == b"".join(parts)
    assert all(each.endswith(b"\n") or len(each) > 40 for each in found[:-1])
    assert all(len(each) <= 20 or each.count(b"\n") <= 1 for each in found)


def test_it_says_when_it_is_started_again(tmp_path: Path) -> None:
    slow = Restarts(first_s=30.0)

    async def scenario(process: LocalProcess) -> None:
        await until(lambda: process.again_in_s is not None)
        assert process.state == "starting"
        assert process.why == "ended with exit code 3"
        assert process.again_in_s is not None
        assert 20 < process.again_in_s <= 30

    run(scenario, tmp_path, program("--die-first", str(tmp_path / "lives"), "1"), restarts=slow)


def test_it_gets_its_gpus_and_its_cores(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))

    async def scenario(process: LocalProcess) -> None:
        await until(lambda: process.state == "ready")
        (first,) = said(process.log)
        assert first["env"] == {"CUDA_VISIBLE_DEVICES": "2,3"}
        assert first["cores"] == [core]

    run(scenario, tmp_path, program(env={"CUDA_VISIBLE_DEVICES": "2,3"}, cores=(core,)))


def test_what_dies_is_started_again_after_a_while(tmp_path: Path) -> None:
    async def scenario(process: LocalProcess) -> None:
        await until(lambda: process.state == "ready")
        assert process.started == 3
        pid = int(str(said(process.log)[-1]["pid"]))
        os.kill(pid, signal.SIGKILL)
        await until(lambda: process.started == 4 and process.state == "ready")

    steady = replace(QUICK, steady_s=0.0)
    run(scenario, tmp_path, program("--die-first", str(tmp_path / "lives"), "2"), restarts=steady)


def test_another_program_at_its_port_is_never_taken_for_it(tmp_path: Path) -> None:
    given = program()
    states: list[str] = []

    async def scenario(process: LocalProcess) -> None:
        process._changed = lambda: states.append(process.state)
        await until(lambda: process.started == 0 and process.why != "")
        assert process.why == f"another program listens at port {given.port}"
        assert states == []
        other.close()
        await until(lambda: process.state == "ready")
        assert process.started == 1

    with listen("127.0.0.1", given.port) as other:
        run(scenario, tmp_path, given, restarts=Restarts(first_s=0.2, longest_s=0.2, most=50))


@pytest.mark.parametrize("lacks", ["a folder for its log", "descriptors"])
def test_one_that_cannot_even_be_tried_fails_and_says_why(tmp_path: Path, lacks: str) -> None:
    """As where the disk is full, or a limit is reached: nobody waits for it for ever."""
    given, limits = program(), resource.getrlimit(resource.RLIMIT_NOFILE)
    log = tmp_path / "file" / "one.log"
    why = "Too many open files"
    if lacks != "descriptors":
        log.parent.write_text("no folder")
        why = "File exists"

    async def main() -> None:
        process = LocalProcess(given, log, look_s=0.02, restarts=QUICK)
        if lacks == "descriptors":
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        process.start()
        await until(lambda: process.state == "failed")
        assert process.why.startswith("cannot be started: ")
        assert process.why.endswith("given up after 3 failures")
        assert why in process.why
        await process.stop(1.0)

    try:
        asyncio.run(main())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_after_too_many_failures_in_a_row_it_is_given_up_and_says_why(tmp_path: Path) -> None:
    async def scenario(process: LocalProcess) -> None:
        await until(lambda: process.state == "failed")
        assert process.started == 3
        assert process.why == "ended with exit code 3; given up after 3 failures"

    run(scenario, tmp_path, program("--die-first", str(tmp_path / "lives"), "99"), restarts=QUICK)


def test_a_program_that_is_not_there_says_so_in_its_log(tmp_path: Path) -> None:
    async def scenario(process: LocalProcess) -> None:
        await until(lambda: process.state == "failed")
        assert process.why == "cannot start no-such-engine"
        assert process.started == 1
        assert "cannot start no-such-engine: No such file" in process.log.read_text()

    run(scenario, tmp_path, Program("one", ("no-such-engine",), 1), restarts=QUICK)


def test_one_that_never_answers_has_failed_after_its_start_up_time(tmp_path: Path) -> None:
    async def scenario(process: LocalProcess) -> None:
        await until(lambda: process.state == "failed")
        assert "did not answer within 0.05 s" in process.why

    silent = Program(
        "one", (sys.executable, "-c", "import signal; signal.pause()"), free_port(), startup_s=0.05
    )
    run(scenario, tmp_path, silent, restarts=QUICK)


def test_children_that_ignore_sigterm_or_ran_away_end_too(tmp_path: Path) -> None:
    async def scenario(process: LocalProcess) -> None:
        await until(lambda: process.state == "ready" and len(said(process.log)) == 3)
        pids = [int(str(line.get("pid", line.get("child")))) for line in said(process.log)]
        assert all(alive(pid) for pid in pids)
        await process.stop()
        assert not any(alive(pid) for pid in pids)

    run(scenario, tmp_path, program("--children"))


def test_one_that_sets_no_handler_ends_at_sigterm(tmp_path: Path) -> None:
    plain = Program("one", (sys.executable, "-c", "import time; time.sleep(600)"), 1, health_path=None)

    async def scenario(process: LocalProcess) -> None:
        await until(lambda: process.state == "ready")
        async with asyncio.timeout(60):
            await process.stop(600.0)

    run(scenario, tmp_path, plain)


def test_one_that_ignores_sigterm_is_killed_when_its_time_is_over(tmp_path: Path) -> None:
    async def scenario(process: LocalProcess) -> None:
        await until(lambda: process.state == "ready")
        (first,) = said(process.log)
        await process.stop(0.1)
        assert not alive(int(str(first["pid"])))

    run(scenario, tmp_path, program("--deaf", drain_s=600.0))


PARENT = """
import asyncio, sys
from dataclasses import replace
from pathlib import Path
from cascadia.clients.processes.guard import become_subreaper
from cascadia.clients.processes.process import LocalProcess, Program

async def main():
    become_subreaper()
    port = int(sys.argv[2])
    process = LocalProcess(Program("one", tuple(sys.argv[3:]), port), Path(sys.argv[1]), look_s=0.02)
    process.start()
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("killed", ["supervisor", "guard"])
def test_after_kill_9_of_the_supervisor_or_the_guard_nothing_is_left(tmp_path: Path, killed: str) -> None:
    given = program("--children", "--deaf")
    log = tmp_path / "one.log"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(log), str(given.port), *given.argv])

    async def scenario() -> None:
        await until(lambda: log.exists() and len(said(log)) == 3)
        tree = descendants(parent.pid)
        assert len(tree) == 4
        if killed == "supervisor":
            parent.kill()
        else:
            os.kill(tree[0], signal.SIGKILL)
            # The program dies with its guard; the supervisor starts another, and is ended with it.
            await until(lambda: not alive(tree[1]))
            await until(lambda: len(said(log)) == 6)
            tree += descendants(parent.pid)
            parent.kill()
        await until(lambda: not any(alive(pid) for pid in tree))

    try:
        asyncio.run(scenario())
    finally:
        parent.kill()
        parent.wait(timeout=60)


def test_it_inherits_all_of_our_environment_but_what_is_withheld(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRONTIER_KEY", "sk-mine")
    monkeypatch.setenv("HF_TOKEN", "theirs")
    code = "import json, os, signal; print(json.dumps(dict(os.environ)), flush=True); signal.pause()"
    argv = (sys.executable, "-c", code)
    given = Program("one", argv, free_port(), withheld=("FRONTIER_KEY",), health_path=None, drain_s=5.0)

    async def scenario(process: LocalProcess) -> None:
        await until(lambda: process.log.exists() and bool(said(process.log)))
        (environment,) = said(process.log)
        assert environment["HF_TOKEN"] == "theirs"
        assert "FRONTIER_KEY" not in environment
        guard = Path(f"/proc/{process.pid}/environ").read_bytes()
        assert b"sk-mine" not in guard

    run(scenario, tmp_path, given)

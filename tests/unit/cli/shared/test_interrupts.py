"""A command that is told to end does so at once, whatever it is in the middle of."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cascadia.cli.interrupts import Stopped, held
from cascadia.cli.shared.output_dir import output_dir
from cascadia.demo.plan_example import SPEC_NAME, write_example
from tests.interrupting import PROGRAM, as_asked, interrupted

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]

STUBBORN = """
import sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from cascadia.cli.interrupts import begin, ends_at_once
from cascadia.cli.shared.output_dir import output_dir

@ends_at_once
def command():
    with output_dir(Path("out"), ("plan.json",)) as folder:
        (folder / "plan.json").write_text("half of it")
        while True:
            try:
                with ThreadPoolExecutor(1) as pool:
                    list(pool.map(time.sleep, [60]))
            except KeyboardInterrupt:
                pass  # as compiled code and finalisers may

begin()
command()
"""


WAITS = """
import asyncio, time
from cascadia.cli.interrupts import begin, ends_within

@ends_within(0.3)
def command():
    asyncio.run(asyncio.to_thread(time.sleep, 60))

begin()
command()
"""


@pytest.fixture
def example(tmp_path: Path) -> Path:
    write_example(tmp_path)
    return tmp_path


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("number", SIGNALS)
def test_a_command_that_takes_no_notice_is_ended_all_the_same(number: int, tmp_path: Path) -> None:
    ended = interrupted((sys.executable, "-c", STUBBORN), tmp_path, number, 0.5)
    assert as_asked(ended, number), ended
    assert list(tmp_path.iterdir()) == []


def test_a_second_interrupt_ends_it_at_once(tmp_path: Path) -> None:
    ended = interrupted((sys.executable, "-c", STUBBORN), tmp_path, signal.SIGINT, 0.5, again_s=0.1)
    assert as_asked(ended, signal.SIGINT), ended
    assert ended.took_s < 0.9  # a grace of a second is for those who are told once


def test_a_service_does_not_wait_for_its_threads_for_ever(tmp_path: Path) -> None:
    """An event loop that closes joins what it gave to threads, e.g. the search for the steps of a move."""
    ended = interrupted((sys.executable, "-c", WAITS), tmp_path, signal.SIGTERM, 0.5)
    assert as_asked(ended, signal.SIGTERM), ended


@pytest.mark.parametrize(
    ("number", "after_s", "ignored"),
    [
        (signal.SIGINT, 0.0, False),
        (signal.SIGTERM, 0.4, False),
        (signal.SIGINT, 0.8, True),
        (signal.SIGTERM, 1.6, False),
    ],
)
def test_planning_ends_at_any_moment(number: int, after_s: float, ignored: bool, example: Path) -> None:
    before = sorted(p.name for p in example.iterdir())
    ended = interrupted(
        (*PROGRAM, "plan", SPEC_NAME, "--out", "plan"), example, number, after_s, ignored=ignored
    )
    if ended.code != 0:  # it may have been quicker than us
        assert as_asked(ended, number), ended
        assert [p.name for p in example.iterdir() if p.name not in (*before, "cache")] == []


@pytest.mark.parametrize("number", SIGNALS)
def test_a_folder_is_not_left_half_moved(number: int, tmp_path: Path) -> None:
    """The signal comes in the middle of the step that gives the files their names."""
    script = """
import os, signal, sys
from pathlib import Path
from cascadia.cli.shared import output_dir as module
from cascadia.cli.interrupts import begin

begin()
whole = Path.replace
def signalled(self, target):
    os.kill(os.getpid(), int(sys.argv[1]))
    return whole(self, target)
Path.replace = signalled
with module.output_dir(Path("out"), ("plan.json", "report.html")) as folder:
    for name in ("plan.json", "report.html"):
        (folder / name).write_text("new")
"""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "plan.json").write_text("old")
    subprocess.run(
        [sys.executable, "-c", script, str(number)],
        cwd=tmp_path,
        check=False,
        stderr=subprocess.DEVNULL,
        timeout=300,
    )
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["out", "plan.json", "report.html"]
    assert (tmp_path / "out" / "plan.json").read_text() == "new"


def test_a_step_that_is_held_ends_before_the_signal_takes_effect() -> None:
    done = []

    def step() -> None:
        with held():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("the rest")

    with pytest.raises(KeyboardInterrupt):
        step()
    assert done == ["the rest"]


def test_outside_the_main_thread_nothing_is_held(tmp_path: Path) -> None:
    def write() -> None:
        with output_dir(tmp_path / "out", ("plan.json",)) as folder:
            (folder / "plan.json").write_text("{}")

    thread = threading.Thread(target=write)
    thread.start()
    thread.join(timeout=60)
    assert (tmp_path / "out" / "plan.json").exists()


def test_a_signal_is_named_by_its_number() -> None:
    assert Stopped(signal.SIGTERM).number == signal.SIGTERM

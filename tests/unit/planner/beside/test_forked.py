"""Work in another process is the same work: its items, its errors and its end are as if it were done here."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cascadia.planner.beside import forked
from cascadia.planner.beside.forked import Forked


def for_ever() -> Iterator[int]:
    yield os.getpid()
    while True:
        pass


@pytest.mark.parametrize(
    ("platform", "cores", "forks"),
    [("linux", 2, True), ("linux", 1, False), ("darwin", 8, False), ("win32", 8, False)],
)
def test_a_search_forks_on_linux_where_there_is_another_core(
    platform: str, cores: int, forks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On macOS a fork of a process that has threads may hang; others have none."""
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(forked, "usable_cores", lambda: cores)
    assert forked.can_fork() is forks


def test_items_come_in_order_from_another_process_and_known_objects_stay_what_they_are() -> None:
    known, other = object(), [1]
    first, (second, third), pid = Forked(lambda: iter((known, (known, other), os.getpid())), (known,))
    assert first is second is known
    assert third == other
    assert third is not other
    assert pid != os.getpid()


def test_what_the_other_process_fails_to_hand_over_is_made_here_and_nothing_twice() -> None:
    def work() -> Iterator[object]:
        yield os.getpid()
        yield lambda: "which nothing pickles"
        yield os.getpid()

    there, made, here = Forked(work)
    assert there != here == os.getpid()
    assert callable(made)


def test_what_a_process_that_stands_still_does_not_hand_over_is_made_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = os.getpid()

    def work() -> Iterator[int]:
        yield 1
        if os.getpid() != here:
            signal.pause()
        yield 2

    monkeypatch.setattr(forked, "SILENT_S", 0.3)
    assert list(Forked(work)) == [1, 2]


def test_an_error_there_is_raised_here() -> None:
    def work() -> Iterator[int]:
        yield 1
        raise ArithmeticError("no more")

    found = Forked(work)
    assert next(found) == 1
    with pytest.raises(ArithmeticError, match="no more"):
        next(found)


def test_where_no_process_can_be_begun_all_is_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refused)
    assert list(Forked(lambda: iter((1, os.getpid())))) == [1, os.getpid()]


def test_a_process_that_is_asked_for_no_more_ends_also_beside_a_later_one() -> None:
    first, later = Forked(for_ever), Forked(for_ever)
    pids = next(first), next(later)
    first.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    del later
    with pytest.raises(ProcessLookupError):
        os.kill(pids[1], 0)


def test_an_interrupt_is_the_first_process_s_to_hear() -> None:
    def work() -> Iterator[int]:
        yield os.getpid()
        yield signal.sigtimedwait([signal.SIGUSR1], 0) is None

    found = Forked(work)
    pid = next(found)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    assert next(found) is True


def test_a_process_ends_with_the_one_that_began_it() -> None:
    """It holds the pipe that is read here: who waits for the pipe's end waits for it."""
    begun = (
        "import os, signal\n"
        "from cascadia.planner.beside.forked import Forked\n"
        "from tests.unit.planner.beside.test_forked import for_ever\n"
        "found = Forked(for_ever)\n"
        "next(found)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", begun], capture_output=True, timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL

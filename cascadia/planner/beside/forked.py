"""A forked process that makes items of work while this one goes on, and hands them over one after the other.

It begins with all that is in memory here, so that nothing has to be handed to it, and it ends as soon as this process
does, or asks for no more. Signals to end are ours to hear. What it fails to hand over, for whatever reason, or within
`SILENT_S`, is made here instead: so its errors are raised as if there had been no other process.

Threads are not forked: work makes those that it needs. Nor are locks that a thread holds let go: whoever forks has
waited for its threads' work before.
"""

import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, BinaryIO, Generic, NamedTuple, NoReturn, TypeVar

from cascadia.files.atomic import UNFINISHED, remove_unfinished
from cascadia_sim.hardware.cores import usable_cores

T = TypeVar("T")

SILENT_S = 300.0
"""Longest wait for an item."""

_LIFELINES: set[int] = set()
"""Ends of pipes whose closing ends another process: a process that is begun later must not hold them open."""


def can_fork() -> bool:
    """Tells whether there is a core for another process, and a system where one may go on from a fork."""
    return sys.platform == "linux" and usable_cores() > 1


class Forked(Generic[T]):
    """Items of `work()`, made in another process. Objects that are `known` to both are the same when handed over."""

    def __init__(self, work: Callable[[], Iterator[T]], known: Sequence[object] = ()) -> None:
        self._work, self._known, self._given = work, tuple(known), 0
        self._here: Iterator[T] | None = None
        self._other: _Other | None = None
        try:
            self._other = _begin(work, self._known)
        except OSError:
            self._here = work()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._here is not None or self._other is None:
            return next(self._here or iter(()))
        limit = threading.Timer(SILENT_S, os.kill, (self._other.process, signal.SIGKILL))
        limit.daemon = True
        limit.start()
        try:
            told = _Reading(self._other.told, self._known).load()
        except (OSError, EOFError, ValueError, AttributeError, pickle.UnpicklingError):
            told = None
        finally:
            limit.cancel()
        if told is None:
            self.close()
            self._here = islice(self._work(), self._given, None)
            return next(self._here)
        if not told:
            self.close()
            self._here = iter(())
            raise StopIteration
        self._given += 1
        item: T = told[0]
        return item

    def close(self) -> None:
        """Ends the other process, if it has not ended."""
        if self._other is None:
            return
        other, self._other = self._other, None
        _LIFELINES.discard(other.lifeline)
        # In a process that was itself begun beside this one neither is ours.
        with suppress(OSError):
            other.told.close()
            os.close(other.lifeline)
            os.waitpid(other.process, 0)

    __del__ = close


class _Other(NamedTuple):
    """Another process, the end of the pipe by which it lives, and what it tells."""

    process: int
    lifeline: int
    told: BinaryIO


def _begin(work: Callable[[], Iterator[Any]], known: tuple[object, ...]) -> _Other:
    """Begins another process. Raises `OSError` where there can be none."""
    (ours, theirs), (watched, lifeline) = os.pipe(), os.pipe()
    _LIFELINES.add(lifeline)
    with warnings.catch_warnings():
        # From Python 3.12 on, whoever has threads is warned of what this module's first lines say.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process == 0:
        _go_on(work, known, theirs, watched)
    os.close(theirs)
    os.close(watched)
    return _Other(process, lifeline, os.fdopen(ours, "rb"))


def _go_on(
    work: Callable[[], Iterator[Any]], known: tuple[object, ...], theirs: int, watched: int
) -> NoReturn:
    """The other process, from its begin to its end. What `UNFINISHED` names is the first one's to remove."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        UNFINISHED.clear()
        for other in _LIFELINES:
            os.close(other)
        threading.Thread(target=_end_with, args=(watched,), daemon=True).start()
        with os.fdopen(theirs, "wb") as out:
            for item in work():
                _Writing(out, known).dump((item,))
                out.flush()
            _Writing(out, known).dump(())
    except BaseException:  # noqa: BLE001 (whatever it is: the first process does the work again, and raises it)
        pass
    finally:
        os._exit(0)


def _end_with(lifeline: int) -> NoReturn:
    """Ends this process when the one that began it has closed the other end, or has ended."""
    os.read(lifeline, 1)
    remove_unfinished()
    os._exit(0)


class _Writing(pickle.Pickler):
    def __init__(self, file: BinaryIO, known: tuple[object, ...]) -> None:
        super().__init__(file, protocol=5)
        self._places = {id(one): at for at, one in enumerate(known)}

    def persistent_id(self, obj: object) -> int | None:
        return self._places.get(id(obj))


class _Reading(pickle.Unpickler):
    def __init__(self, file: BinaryIO, known: tuple[object, ...]) -> None:
        super().__init__(file)
        self._known = known

    def persistent_load(self, pid: int) -> object:
        return self._known[pid]

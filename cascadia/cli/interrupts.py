"""End of a command that is told to end: at once, in one line, with nothing half-written.

SIGINT, SIGTERM and SIGHUP become an exception in the main thread, and what was begun is undone on its way out. That is
not enough for a command that computes: compiled code looks at no signal, a `with` waits for its threads, a library may
swallow the exception, and an interpreter that ends joins every thread first. So a thread watches, told of each signal
through a pipe that Python's own handler writes to (`signal.set_wakeup_fd`): what has not ended `GRACE_S` after the
first signal (a service: the time that it names), or at a second one, is ended from there.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from types import FrameType
from typing import Any, NoReturn

from cascadia.files.atomic import remove_unfinished

GRACE_S = 1.0
HELD_S = 5.0
"""How long a step that must not be cut in two (`held`) may make the end wait."""

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
"""The signals that end a command, and what it says then. Its exit code is 128 and the signal's number."""


class Stopped(KeyboardInterrupt):
    """A signal other than SIGINT has told us to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _State:
    """State of this process: whether signals are ours to handle, what has come, and whether the end has to
    wait.
    """

    begun = False
    watched = False
    told = False
    holding = 0
    caught: int | None = None


def number_of(error: BaseException) -> int:
    """The signal that an interrupt stands for."""
    return error.number if isinstance(error, Stopped) else int(signal.SIGINT)


def begin() -> None:
    """Makes signals end this process as this page says from here on, one that was ignored by our parent too.

    (A shell ignores SIGINT for what a script starts in the background, and so nobody could end it.) SIGHUP stays
    ignored: that is how `nohup` asks us to stay.
    """
    if _State.begun:
        return
    _State.begun = True
    signal.signal(signal.SIGINT, signal.default_int_handler)  # asyncio replaces this one, and no other
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _stop)
    sys.unraisablehook = _silent_of_interrupts(sys.unraisablehook)


def _stop(number: int, _: FrameType | None) -> NoReturn:
    raise Stopped(number)


def _silent_of_interrupts(tell: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """An interrupt may be raised where nothing can pass it on, e.g. in a finaliser: the watch ends us then."""

    def hook(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            tell(unraisable)

    return hook


def ends_at_once(command: Callable[..., None]) -> Callable[..., None]:
    """Marks a command that computes, and neither serves nor has child processes to stop."""
    return ends_within(GRACE_S)(command)


def ends_within(grace_s: float) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Marks a command that has `grace_s` to end by itself, and is ended then: an event loop that closes waits for each
    of its threads, however long that computes."""

    def marked(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def wrapper(*args: Any, **options: Any) -> None:
            _watch(grace_s)
            command(*args, **options)

        return wrapper

    return marked


def _watch(grace_s: float) -> None:
    if not _State.begun or _State.watched:
        return
    _State.watched = True
    heard, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    threading.Thread(target=_end_what_does_not, args=(heard, grace_s), name="interrupts", daemon=True).start()


def _end_what_does_not(heard: int, grace_s: float) -> None:
    while True:
        number = os.read(heard, 1)[0]
        if number in WORDS and _ours(number):
            break
    _State.caught = number
    threading.Timer(grace_s, _end_now, (number,)).start()
    while os.read(heard, 1)[0] not in WORDS:
        pass
    _end_now(number)


def _ours(number: int) -> bool:
    return signal.getsignal(number) in (_stop, signal.default_int_handler, _note)


def _end_now(number: int) -> NoReturn:
    """Ends from another thread than the main one, whatever that one does."""
    until_s = time.monotonic() + HELD_S
    while _State.holding and time.monotonic() < until_s:
        time.sleep(0.01)
    tell_line(f"error: {WORDS[signal.Signals(number)]}")
    end(128 + number)


def tell_line(line: str) -> None:
    """Writes a line on standard error; on a terminal below the `^C` that it shows."""
    if _State.told:
        return
    _State.told = True
    with suppress(OSError):
        os.write(2, f"{chr(10) if os.isatty(2) else ''}{line}\n".encode(errors="replace"))


def end(code: int) -> NoReturn:
    """Ends without joining threads, and with nothing unfinished left."""
    remove_unfinished()
    os._exit(code)


def done(code: int) -> None:
    """All is said. A watched command ends here: threads of libraries may not let an interpreter end."""
    if _State.watched:
        sys.stdout.flush()
        sys.stderr.flush()
        end(code)


def begun() -> bool:
    return _State.begun


def caught() -> int | None:
    """The signal that was to end this process, if one came."""
    return _State.caught


@contextmanager
def held() -> Iterator[None]:
    """A step that is not cut in two: a signal that comes meanwhile takes effect when the block ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in WORDS}
    ours = [n for n, handler in before.items() if handler in (_stop, signal.default_int_handler)]
    came: list[int] = []
    _NOTED.append(came)
    _State.holding += 1
    for number in ours:
        signal.signal(number, _note)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
        _State.holding -= 1
        _NOTED.pop()
    if came:
        raise KeyboardInterrupt if came[0] == signal.SIGINT else Stopped(came[0])


_NOTED: list[list[int]] = []


def _note(number: int, _: FrameType | None) -> None:
    _NOTED[-1].append(number)

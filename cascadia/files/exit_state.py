"""The certificate of exits in a file: it outlives the processes that gather its evidence, and those of a host share it.

There is one sequence of evidence, whoever gathers it. A process keeps what it is fed until it has the file's lock, then
takes up what stands there, puts its own behind it and writes the whole. So each sees a beginning of the same sequence,
the wealth of a bet on it is the one that the theorem speaks of, and delta is that of all processes together; had each a
sequence of its own, each would have a delta of its own. When evidence is exchanged does not depend on what it says. A
process that dies takes what it had not exchanged with it, which does not depend on it either.

Which inputs came last is in the file too: that a client asks the same thing again is seen by whichever process it
comes to.

Where there is no path after a withdrawal, each learns one from what it is fed itself: the first to have it writes it.
"""

import fcntl
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from cascadia.domain.errors import BadInput
from cascadia.exits.controller import Controller
from cascadia.exits.copies import LAST, Recent
from cascadia.exits.readings import Floats, Ints
from cascadia.exits.snapshot import Snapshot, resume, snapshot
from cascadia.files.text import read_text, write_whole

VERSION = 1
MAX_BYTES = 4_000_000
EVERY_S = 1.0
"""Between two looks at what others have found."""
MOST_WAITING = 100
"""So much evidence is exchanged at once."""
STUCK_S = 10.0
"""After so long without the lock a process goes on by itself: whoever holds it does not run."""

LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class _Kept:
    """`settings`: digest of what the evidence is about. Of other settings it says nothing."""

    settings: str
    state: Snapshot
    version: int = VERSION
    recent: Annotated[tuple[int, ...], Field(max_length=LAST)] = ()
    """The last inputs fed back, as `Recent` keeps them."""


class SharedExits:
    """`controller`, with its evidence in the file `path`. `feed` is quick; `exchange` is for one thread at a time.

    `tell` is given a line, once, where the file is of no use or cannot be written: exits then begin anew, or evidence
    is this process's own.
    """

    def __init__(
        self,
        controller: Controller,
        path: Path,
        settings: str,
        tell: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.controller, self._path, self._settings = controller, path, settings
        self._tell, self._clock = tell, clock
        self._waiting: deque[tuple[Ints, Floats, int, bytes | None]] = deque()
        self._recent = Recent()
        self._seen: tuple[int, int, int] | None = None
        self._told: set[str] = set()
        self._alone = False
        self._last_s = clock()
        self._busy_since_s: float | None = None
        self.exchange()

    def feed(self, labels: Ints, doubts: Floats, final: int, key: bytes | None = None) -> None:
        """`key` tells the input from others; None: unknown."""
        self._waiting.append((labels, doubts, final, key))

    def look(self) -> None:
        """Exchanges, where there is much to tell or it was a while ago."""
        if len(self._waiting) >= MOST_WAITING or self._clock() - self._last_s >= EVERY_S:
            self.exchange()

    def exchange(self) -> None:
        """Puts what was fed behind what all have found, and takes that up. Where others are at it nothing is done."""
        self._last_s = self._clock()
        if self._alone:
            self._feed()
            return
        if not self._waiting and self._stamp() == self._seen:
            return
        try:
            with self._locked() as mine:
                if mine:
                    self._take_up()
                    if self._feed() or self._seen is None:
                        write_whole(self._path, self._written())
                        self._seen = self._stamp()
        except (OSError, BadInput) as error:
            self._say(f"{self._path.parent}: {error}; what is certified is lost at a restart")
            self._go_alone()

    def close(self) -> None:
        """Exchanges what is left, unless others are at it for long."""
        for _ in range(100):
            self.exchange()
            if not self._waiting:
                return
            time.sleep(0.01)

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(
            self._path.with_name(self._path.name + LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
        )
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._busy_since_s = self._busy_since_s or self._clock()
                if self._clock() - self._busy_since_s >= STUCK_S:
                    self._say(f"{self._path}{LOCK} is held by a process that does not run; exits go on alone")
                    self._go_alone()
                yield False
                return
            self._busy_since_s = None
            yield True
        finally:
            os.close(lock)

    def _take_up(self) -> None:
        if (stamp := self._stamp()) == self._seen:
            return
        self._seen = None
        if stamp is None:
            return
        try:
            kept = TypeAdapter(_Kept).validate_json(read_text(self._path, MAX_BYTES))
        except (ValidationError, ValueError, RecursionError, BadInput) as error:
            what = error.what if isinstance(error, BadInput) else "is torn or no file of exits"
            self._say(f"{self._path}: {what}; exits begin anew")
            return
        mine, learns = self.controller, self.controller.learning and kept.state.learning
        if kept.version != VERSION or kept.settings != self._settings:
            self._say(f"{self._path}: is of other exits, or another version; they begin anew")
        elif (learns and kept.state.withdrawn == mine.withdrawn) or resume(mine, kept.state):
            self._seen = stamp
            self._recent.resume(kept.recent)
        else:
            self._say(f"{self._path}: is of another promise, or other ramps; exits begin anew")

    def _feed(self) -> bool:
        """Tells whether there was anything to feed."""
        fed = False
        while self._waiting:
            labels, doubts, final, key = self._waiting.popleft()
            self.controller.feed(labels, doubts, final, self._recent.has(key))
            fed = True
        return fed

    def _go_alone(self) -> None:
        self._alone = True
        self._feed()

    def _written(self) -> str:
        return (
            json.dumps(asdict(_Kept(self._settings, snapshot(self.controller), recent=self._recent.kept)))
            + "\n"
        )

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _say(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._tell(line)

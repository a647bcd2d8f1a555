"""History of what the controller saw, decided and did: a line of JSON each, never rewritten, read back after
any crash.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import Any, BinaryIO, Literal

from cascadia.domain.errors import BadInput

Kind = Literal[
    "alarm",
    "decision",
    "begun",
    "step",
    "moved",
    "failed",
    "rolled-back",
    "adopted",
    "given",
    "holding",
    "held",
    "handed-back",
    "speed",
    "scaled",
    "profile",
    "gears",
    "clock",
]
"""`begun` to `moved`, `failed` or `rolled-back` is one move; `adopted`: a controller took up what it found; `given`:
somebody wants another plan; `holding` to `held`: the plan in force was made so again; `handed-back`: engines are
Helm's; `speed`: engines are not as fast as planned, or one of them as its siblings; or what a plan takes them to be;
`scaled`: more or fewer replicas of the plan's own shapes, for the load of this moment; `profile`: rates of the last
hours, by which those of the coming days are foretold; `gears`: whether questions are
as hard under load as without; `clock`: the machine's was set."""

FILE = "history.jsonl"
LATEST_S = 1e11
"""Unix time beyond which nobody wrote."""
AHEAD_S = 60.0
"""So far an entry may be ahead of now. One that is later was dated by a clock that has been set back, and its time says
nothing: a cool-down would last until then."""
MAX_LINE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """`at_s` is Unix time; `what` one line for people; `facts` the same for programs."""

    at_s: float
    kind: Kind
    what: str
    facts: Mapping[str, Any] = field(default_factory=dict)


class History:
    """History file in `folder`, which is made where it is missing."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._known: list[Entry] = []
        self._known_bytes = 0

    def add(self, entry: Entry) -> None:
        """Appends `entry`, which is on the disk when this returns; a line that a crash cut short is ended
        first.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = line_of(entry).encode()
        with self.path.open("ab+") as file:
            end = file.seek(0, os.SEEK_END)
            if end:
                file.seek(end - 1)
                if file.read(1) != b"\n":
                    line = b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def entries(self) -> list[Entry]:
        """All that can be read, in order. None where there is no file."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < self._known_bytes:
                self._known, self._known_bytes = [], 0
            file.seek(self._known_bytes)
            # A year of it is too long to be read at each look. A line without its end may yet be ended.
            whole = list(takewhile(lambda line: line.endswith(b"\n"), _lines(file)))
            self._known_bytes += sum(map(len, whole))
            self._known.extend(entries_of(whole))
            file.seek(self._known_bytes)
            return [*self._known, *entries_of(_lines(file))]


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE_BYTES):
        yield line


def line_of(entry: Entry) -> str:
    document = {"at_s": entry.at_s, "kind": entry.kind, "what": entry.what, **entry.facts}
    return json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n"


def entries_of(lines: Iterable[str | bytes]) -> Iterator[Entry]:
    """Entries of these lines, but for those that a crash cut short, or somebody wrote who is no controller."""
    for line in lines:
        try:
            document = json.loads(line)
            at_s, kind, what = document.pop("at_s"), document.pop("kind"), document.pop("what")
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            continue
        if all(map(_is_time, (at_s, document.get("since_s", 0.0)))) and {type(kind), type(what)} == {str}:
            # Of another version's facts those that this one reads otherwise are left out: the entry counts all the
            # same, as a day's limit on moves does.
            facts = {name: fact for name, fact in document.items() if FACTS.get(name, _any)(fact)}
            yield Entry(at_s, kind, what, facts)


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= LATEST_S


def _counts(value: Any) -> bool:
    return isinstance(value, dict) and all(type(count) is int for count in value.values())


def _any(_: Any) -> bool:
    return True


FACTS: dict[str, Callable[[Any], bool]] = {
    "since_s": _is_time,
    "planning_s": _is_time,
    "took_s": _is_time,
    "startup_s": _is_time,
    "gpus": _counts,
}
"""Form of the facts that decisions rest on."""


def moved_at_s(entries: list[Entry], now_s: float) -> list[float]:
    """Unix times when moves began that went through or that failed: both cost."""
    return [entry.at_s for entry in entries if entry.kind == "begun" and entry.at_s <= now_s + AHEAD_S]


def mended_at_s(entries: list[Entry]) -> list[float]:
    """Of the moves those that were decided for a bound, not for gain."""
    found, mends = [], False
    for entry in entries:
        if entry.kind == "decision":
            # Older histories tell by a gain of all.
            mends = bool(entry.facts.get("mends", entry.facts.get("gain") == 1.0))
        elif entry.kind == "begun" and mends:
            found.append(entry.at_s)
    return found


def latest_s(entries: list[Entry], kind: Kind, now_s: float) -> float:
    """Unix time of the last entry of that kind; -inf where there is none."""
    found = (entry.at_s for entry in entries if entry.kind == kind and entry.at_s <= now_s + AHEAD_S)
    return max(found, default=-inf)


def changed_at_s(entries: list[Entry], now_s: float) -> list[float]:
    """Unix times when the traffic changed, as it seemed at the alarm."""
    found = (float(entry.facts["since_s"]) for entry in entries if "since_s" in entry.facts)
    return [at_s for at_s in found if at_s <= now_s + AHEAD_S]


def planned_gpus(entries: list[Entry]) -> dict[str, int]:
    """GPUs by pool that it was last decided with; empty where nothing was decided yet."""
    return next((dict(entry.facts["gpus"]) for entry in reversed(entries) if "gpus" in entry.facts), {})


def read_history(folder: Path) -> list[Entry]:
    """Raises `BadInput` where no controller has kept one."""
    history = History(folder)
    if not history.path.exists():
        instead = "run `cascadia controller`, or name the folder of the fleet that one looks after"
        raise BadInput(str(history.path), "there is no history", instead)
    return history.entries()

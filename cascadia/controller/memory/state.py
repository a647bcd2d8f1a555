"""State that outlives a controller: its history, the plan in force and the move under way."""

import json
import shlex
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from cascadia.controller.memory.history import Entry, History
from cascadia.domain.errors import BadInput
from cascadia.files.text import write_whole

IN_FORCE, UNDER_WAY = "in-force.json", "move.json"

_RATES = ("need_rps", "need_now_rps")
_TEXTS = ("plan", "asked", "asked_digest", "digest", "engines", "to", "from", "in_force", "given")


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A move: to a plan, from the last good one, with what today's traffic needs of each stage then and now."""

    to: Path
    back: Path
    need_rps: dict[str, float]
    need_now_rps: dict[str, float]


class State(Protocol):
    """Store of the controller's state. What is written is safe when the method returns. Plans are files that
    can be read as long as this lives.
    """

    def add(self, entry: Entry) -> None: ...

    def entries(self) -> list[Entry]: ...

    def in_force(self) -> Path: ...

    def put_in_force(self, plan: Path) -> None: ...

    def under_way(self) -> UnderWay | None: ...

    def put_under_way(self, move: UnderWay | None) -> None: ...


class FileState:
    """State kept in a folder that stays."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._history = History(folder)

    def add(self, entry: Entry) -> None:
        self._history.add(entry)

    def entries(self) -> list[Entry]:
        return self._history.entries()

    def in_force(self) -> Path:
        return Path(_told(self._folder / IN_FORCE, "plan")["plan"])

    def put_in_force(self, plan: Path) -> None:
        write_in_force(self._folder, plan)

    def under_way(self) -> UnderWay | None:
        path = self._folder / UNDER_WAY
        if not path.exists():
            return None
        document = _told(path, "to", "from", "need_rps", "need_now_rps")
        return UnderWay(
            Path(document["to"]), Path(document["from"]), document["need_rps"], document["need_now_rps"]
        )

    def put_under_way(self, move: UnderWay | None) -> None:
        path = self._folder / UNDER_WAY
        if move is None:
            path.unlink(missing_ok=True)
            return
        document = {
            "to": str(move.to),
            "from": str(move.back),
            "need_rps": move.need_rps,
            "need_now_rps": move.need_now_rps,
        }
        write_whole(path, json.dumps(document))


class Source(NamedTuple):
    """Files that a fleet comes up with: the plan, the one that was asked for (it may go on with another), and the
    local.yaml that says how its stages are started."""

    plan: Path
    asked: Path
    engines: Path | None = None


def begin(folder: Path, source: Source) -> None:
    """A fleet comes up: what one before it was in the middle of is nobody's business any more."""
    (folder / UNDER_WAY).unlink(missing_ok=True)
    asked = {"asked": str(source.asked.resolve()), "asked_digest": digest_of(source.asked)}
    write_whole(folder / IN_FORCE, json.dumps(_in_force(source.plan) | asked | _engines(source.engines)))


def remember_engines(folder: Path, engines: Path) -> None:
    """Records the local.yaml that the fleet's replicas are started by from now on."""
    path = folder / IN_FORCE
    write_whole(path, json.dumps(_told(path) | _engines(engines)))


def remembered_engines(folder: Path) -> Path | None:
    """The local.yaml that the fleet's replicas are started by; None where there is none."""
    path = folder / IN_FORCE
    engines = _told(path).get("engines") if path.exists() else None
    return None if engines is None else Path(engines)


def _engines(engines: Path | None) -> dict[str, Any]:
    return {} if engines is None else {"engines": str(engines.resolve())}


def write_in_force(folder: Path, plan: Path) -> None:
    """Records the plan in force; what the fleet came up with stays known."""
    path = folder / IN_FORCE
    before = _told(path) if path.exists() else {}
    write_whole(path, json.dumps(before | _in_force(plan)))


def _in_force(plan: Path) -> dict[str, Any]:
    return {"plan": str(plan.resolve()), "digest": digest_of(plan)}


def check_in_force(folder: Path) -> None:
    """Raises `BadInput` where the file of the plan in force holds another plan by now, which nobody has moved to:
    whoever went by it would start replicas of the one among those of the other."""
    told = _told(folder / IN_FORCE, "plan")
    plan, then = Path(told["plan"]), told.get("digest")
    if then is not None and plan.exists() and digest_of(plan) != then:
        what = "has changed since it was put in force, and the fleet runs what it said then"
        raise BadInput(str(plan), what, f"move to it first: `cascadia move {shlex.quote(str(plan))}`")


class Last(NamedTuple):
    """State that a fleet left behind: the plan in force, what it came up with and that file's digest then (None
    where it was not told), and where a move was under way to.
    """

    plan: Path
    asked: Path | None
    asked_digest: str | None
    under_way: Path | None

    @property
    def moved(self) -> bool:
        """Tells whether another plan was put in force since the fleet came up."""
        return self.asked is not None and self.asked != self.plan


def last_of(folder: Path) -> Last | None:
    """State that the last fleet left in `folder`; None where none has run."""
    path = folder / IN_FORCE
    if not path.exists():
        return None
    told = _told(path, "plan")
    move = folder / UNDER_WAY
    to = _told(move, "to")["to"] if move.exists() else None
    asked = told.get("asked")
    return Last(
        Path(told["plan"]),
        None if asked is None else Path(asked),
        told.get("asked_digest"),
        None if to is None else Path(to),
    )


def _told(path: Path, *names: str) -> dict[str, Any]:
    """Document of the file. Raises `BadInput` for one that was cut short, or has not these members."""
    try:
        document = json.loads(path.read_text())
    except (ValueError, RecursionError):
        document = None
    if not is_state(document, *names):
        wanted = f"no JSON object with {', '.join(names)}" if names else "no JSON object"
        raise BadInput(str(path), f"holds {wanted}", "remove it, and name the plan that is to be in force")
    found: dict[str, Any] = document
    return found


def is_state(document: object, *names: str) -> bool:
    """Tells whether a document has `names`, and members of the form that controllers write; those that another version
    knows besides are nobody's business here."""
    if not isinstance(document, dict) or any(document.get(name) is None for name in names):
        return False
    texts = all(isinstance(document.get(name, ""), str | None) for name in _TEXTS)
    return texts and all(_are_rates(document.get(name, {})) for name in _RATES)


def _are_rates(found: object) -> bool:
    return isinstance(found, dict) and all(type(rps) in (int, float) for rps in found.values())


def digest_of(plan: Path) -> str | None:
    """BLAKE2b of the file's content; None where it has gone."""
    return blake2b(plan.read_bytes(), digest_size=8).hexdigest() if plan.exists() else None

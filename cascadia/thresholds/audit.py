"""The audit file of a router's thresholds: one JSON line for each proposal, approval and rollback, only ever added to.

It lies beside router.yaml, as router.yaml.audit.jsonl; where that is a link, beside what it points to.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from cascadia.domain.errors import BadInput


class _Entry(Struct):
    at: str
    what: str
    id: str
    by: str


class _Setting(Struct):
    thresholds: dict[str, float]


class _Expected(Struct):
    now: _Setting
    proposed: _Setting


class _Proposed(Struct):
    expected: _Expected


class _Changed(Struct):
    before: dict[str, float]
    after: dict[str, float]


def audit_file(router: Path) -> Path:
    if not router.name:
        raise BadInput(str(router), "is no file", "name a router.yaml")
    real = Path(os.path.realpath(router)) if router.is_symlink() else router
    return real.with_name(f"{real.name}.audit.jsonl")


def entries(router: Path) -> list[dict[str, Any]]:
    """All lines, the oldest first. Raises `BadInput` for one that is none."""
    path = audit_file(router)
    if not path.is_file():
        return []
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            entry = msgspec.json.decode(line)
            told = msgspec.convert(entry, _Entry)
            msgspec.convert(entry, _Proposed if told.what == "proposed" else _Changed)
        except (ValueError, RecursionError):
            raise BadInput(
                f"{path} line {number}",
                "is not JSON, or of no such file",
                "mend it by hand: it is the record",
            ) from None
        found.append(entry)
    return found


Add = Callable[[Mapping[str, Any]], None]


@contextmanager
def held(router: Path) -> Iterator[Add]:
    """The file for this process alone, and how a line is added, on the disk before that returns. Whoever changes
    thresholds takes it first, so that no change is without a line and none is made twice. Raises `BadInput`."""
    path = audit_file(router)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise BadInput(
            str(path), f"cannot be written ({error.strerror})", "let whoever changes thresholds write it"
        ) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        def add(entry: Mapping[str, Any]) -> None:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

        yield add


def proposal(router: Path, name: str | None) -> dict[str, Any]:
    """The proposal called `name`, or the latest. Raises `BadInput` where there is none."""
    known = [entry for entry in entries(router) if entry["what"] == "proposed"]
    if name is not None:
        known = [entry for entry in known if entry["id"] == name]
    if not known:
        said = "no proposal" if name is None else f"no proposal {name!r}"
        raise BadInput(str(audit_file(router)), said, "make one: `cascadia thresholds propose`")
    return known[-1]


def to_roll_back(router: Path) -> dict[str, Any]:
    """The latest approval that was not rolled back. Raises `BadInput` where there is none."""
    standing: list[dict[str, Any]] = []
    for entry in entries(router):
        if entry["what"] == "approved":
            standing.append(entry)
        elif entry["what"] == "rolled back" and standing:
            standing.pop()
    if not standing:
        raise BadInput(str(audit_file(router)), "no approval to roll back", "it has its first thresholds")
    return standing[-1]

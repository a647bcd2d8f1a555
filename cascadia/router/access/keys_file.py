"""The file of keys: JSON, written whole, readable by its owner only. It holds hashes, never a key."""

import fcntl
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from cascadia.domain.errors import BadInput
from cascadia.files.field_errors import bad_input
from cascadia.files.text import read_text, write_whole
from cascadia.router.access.keys import Key, KeyLimits, Keyring, Scope

VERSION = 1
MAX_BYTES = 64_000_000

_Rate = Annotated[int, Field(ge=1, le=10**12)]
_Name = Annotated[str, Field(min_length=1, max_length=100)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[0-9a-f]{12}$")
    name: str = Field(min_length=1, max_length=100, pattern=r"^[\x20-\x7e]+$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    scopes: list[Scope] = Field(min_length=1)
    models: list[_Name] | None = None
    requests_per_minute: _Rate | None = None
    tokens_per_minute: _Rate | None = None
    concurrent: _Rate | None = None
    usd_per_month: float | None = Field(None, gt=0, le=1e12)
    priority: int = Field(0, ge=-1000, le=1000)
    max_gear: int | None = Field(None, ge=0, le=63)
    created: AwareDatetime | None = None
    expires: AwareDatetime | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1]
    keys: list[_Entry]


def read_keys(path: Path) -> Keyring:
    """Raises `BadInput`: for a file that is none, and for one that anyone may write."""
    return Keyring(_key(entry) for entry in _read(path))


def entry_of(key: Key, created: datetime) -> dict[str, Any]:
    """`key` as the file has it."""
    limits = key.limits
    expires = None if key.expires_s is None else datetime.fromtimestamp(key.expires_s, UTC)
    entry = {
        "id": key.id,
        "name": key.name,
        "sha256": key.digest.hex(),
        "scopes": sorted(key.scopes),
        "models": None if key.models is None else sorted(key.models),
        "requests_per_minute": limits.requests_per_minute,
        "tokens_per_minute": limits.tokens_per_minute,
        "concurrent": limits.concurrent,
        "usd_per_month": limits.usd_per_month,
        "priority": key.priority or None,
        "max_gear": key.max_gear,
        "created": created.isoformat(timespec="seconds"),
        "expires": None if expires is None else expires.isoformat(timespec="seconds"),
    }
    return {name: value for name, value in entry.items() if value is not None}


def add_key(path: Path, key: Key, created: datetime) -> None:
    """Makes the file where it is missing. Raises `BadInput`, also where the name is taken, or the key is one that no
    file may hold: it would lock out everybody whose key is beside it."""
    entry = entry_of(key, created)
    try:
        _Entry.model_validate_json(json.dumps(entry))
    except ValidationError as error:
        raise bad_input(error, _Entry, "the key") from None
    with _held(path):
        entries = _read(path) if path.exists() else []
        if any(each.name == key.name for each in entries):
            raise BadInput("--name", f"{key.name!r} is taken", "revoke that key first, or name another")
        _write(path, [*(_plain(each) for each in entries), entry])


def revoke_key(path: Path, name_or_id: str) -> Key:
    """The key that was taken out. Raises `BadInput` where there is none of that name or id."""
    with _held(path):
        entries = _read(path)
        found = [entry for entry in entries if name_or_id in (entry.id, entry.name)]
        if not found:
            known = ", ".join(entry.name for entry in entries[:20]) or "none"
            raise BadInput("KEY", f"{name_or_id!r} is no key of {path}", f"it has {known}")
        _write(path, [_plain(entry) for entry in entries if entry is not found[0]])
    return _key(found[0])


def _read(path: Path) -> list[_Entry]:
    where = str(path)
    text = read_text(path, MAX_BYTES)
    if path.stat().st_mode & stat.S_IWOTH:
        raise BadInput(where, "can be written by anyone, who could add a key", f"chmod 600 {path}")
    try:
        found = _File.model_validate_json(text)
    except ValidationError as error:
        raise bad_input(error, _File, where) from None
    for member in ("id", "name"):
        seen: set[str] = set()
        for i, entry in enumerate(found.keys):
            value = getattr(entry, member)
            if value in seen:
                raise BadInput(
                    f"{where}: keys[{i}].{member}", f"{value!r} is there twice", "keep one of them"
                )
            seen.add(value)
    return found.keys


def _key(entry: _Entry) -> Key:
    return Key(
        id=entry.id,
        name=entry.name,
        digest=bytes.fromhex(entry.sha256),
        scopes=frozenset(entry.scopes),
        models=None if entry.models is None else frozenset(entry.models),
        limits=KeyLimits(
            entry.requests_per_minute, entry.tokens_per_minute, entry.concurrent, entry.usd_per_month
        ),
        expires_s=None if entry.expires is None else entry.expires.timestamp(),
        priority=entry.priority,
        max_gear=entry.max_gear,
    )


def _plain(entry: _Entry) -> dict[str, Any]:
    document: dict[str, Any] = entry.model_dump(mode="json", exclude_none=True)
    return document


def _write(path: Path, entries: Iterable[dict[str, Any]]) -> None:
    write_whole(path, json.dumps({"version": VERSION, "keys": list(entries)}, indent=1) + "\n", mode=0o600)


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """One writer at a time: two commands at once must not lose each other's key."""
    try:
        # The folder and not the file, which each write replaces: its lock would be on one that nobody reads
        # any more.
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise BadInput(
            str(path), f"its folder cannot be opened ({error.strerror})", "make it first"
        ) from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)

"""Settings, keys and overrides in force, kept for the process that takes another's place: it goes on with them, not
with what their parent read at the start, nor with files that changed since, and may make no sense now.

They stay in memory that a router's processes share. No file: secrets are among them.
"""

import fcntl
import os
import pickle
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from cascadia.router.access.keys import Keyring
from cascadia.router.access.keys_file import read_keys
from cascadia.router.access.setup import check_budgets
from cascadia.router.admin.broadcast import Override
from cascadia.router.settings.model import RouterSettings

_DIGEST_BYTES = sha256().digest_size

Signature = tuple[tuple[int, int, int] | None, ...]


class InForce(NamedTuple):
    """`known`: the files as they were when they were read. `overrides`: what operators put beside them. `names`: what
    clients may know of stages, of plans before too."""

    settings: RouterSettings
    keyring: Keyring | None
    known: Signature
    overrides: tuple[Override, ...] = ()
    names: tuple[str, ...] = ()


class LastGood:
    """`first` is what the parent read. Made before the processes are."""

    def __init__(self, first: InForce) -> None:
        self._first = first
        self._memory = os.memfd_create("cascadia-settings")

    def put(self, now: InForce) -> None:
        content = pickle.dumps(now)
        fcntl.lockf(self._memory, fcntl.LOCK_EX)
        try:
            os.ftruncate(self._memory, 0)
            os.pwrite(self._memory, sha256(content).digest() + content, 0)
        finally:
            fcntl.lockf(self._memory, fcntl.LOCK_UN)

    def get(self) -> InForce:
        """The latest; the first where there is none, or whoever wrote it was killed meanwhile."""
        # Exclusive: the descriptor is the same in all processes, and a shared lock needs one that only reads.
        fcntl.lockf(self._memory, fcntl.LOCK_EX)
        try:
            whole = os.pread(self._memory, os.fstat(self._memory).st_size, 0)
        finally:
            fcntl.lockf(self._memory, fcntl.LOCK_UN)
        digest, content = whole[:_DIGEST_BYTES], whole[_DIGEST_BYTES:]
        if sha256(content).digest() != digest:
            return self._first
        found: InForce = pickle.loads(content)
        return found


def read(load: Callable[[], RouterSettings]) -> InForce:
    """Raises `CascadiaError` where settings or keys make no sense."""
    settings = load()
    known = signature(files_of(settings))
    keyring = read_keys(settings.keys.file) if settings.keys is not None else None
    check_budgets(settings, keyring)
    return InForce(settings, keyring, known)


def files_of(settings: RouterSettings) -> tuple[Path, ...]:
    keys = settings.keys
    return (*settings.files, *((keys.file,) if keys is not None else ()))


def signature(paths: Iterable[Path]) -> Signature:
    """Signature that changes when a file does: None where it is missing, as for a moment while it is replaced."""
    return tuple(_one(path) for path in paths)


def _one(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    # The inode too: a file put in place by a rename may be as old and as long as the one before.
    return found.st_mtime_ns, found.st_ino, found.st_size

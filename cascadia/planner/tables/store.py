"""Stage tables on disk, by a digest of all that decides them, so that planning again starts where it ended.

Under CASCADIA_CACHE_DIR, else XDG_CACHE_HOME/cascadia, else ~/.cache/cascadia. A store that cannot be read or written
is as good as empty: tables are then made anew.
"""

import hashlib
import zipfile
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import cascadia_sim
from cascadia.domain.errors import BadInput
from cascadia.files.atomic import atomic_write
from cascadia.files.homes import cache_folder
from cascadia_sim.iteration.timing import ReplicaTiming

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


KIND = "tables"


def digest_of(
    timings: Sequence[ReplicaTiming],
    load: str,
    quantile: float,
    levels: Ints,
    limits: Sequence[int],
    stable_shares: Sequence[float],
) -> str:
    """SHA-256 of what a table depends on: its inputs, and the code that makes it."""
    hasher = hashlib.sha256(
        f"{code_digest()} {load} {quantile!r} {tuple(limits)} {tuple(stable_shares)}".encode()
    )
    hasher.update(levels.tobytes())
    for timing in timings:
        for field in fields(timing):
            value = getattr(timing, field.name)
            hasher.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
    return hasher.hexdigest()


@cache
def code_digest(simulator: Path = Path(cascadia_sim.__file__).parent) -> str:
    """SHA-256 of the sources of the simulator, in all its folders, and of the tables: a change of either starts a new
    store."""
    hasher = hashlib.sha256()
    for path in (
        *sorted(simulator.rglob("*.py")),
        *(Path(__file__).with_name(name) for name in ("tables.py", "capacity.py", "loads.py")),
    ):
        hasher.update(path.read_bytes())
    return hasher.hexdigest()


def load_table(digest: str) -> tuple[Floats, Floats] | None:
    """(latency_s, saturated) as they were saved; None where there is no such table, or none that can be read."""
    try:
        with np.load(cache_folder(KIND) / f"{digest}.npz", allow_pickle=False) as found:
            return found["latency_s"], found["saturated"]
    except (BadInput, OSError, KeyError, ValueError, zipfile.BadZipFile):
        return None


def save_table(digest: str, latency_s: Floats, saturated: Floats) -> None:
    """Whole or not at all; a store that cannot be written stays as it is."""
    try:
        folder = cache_folder(KIND)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / f"{digest}.npz", 0o600) as part, part.open("wb") as file:
            np.savez(file, latency_s=latency_s, saturated=saturated)
    except (BadInput, OSError):
        return

"""Where the public data lies, for tests that use it in place."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def data_dir() -> Path:
    return Path(os.environ.get("CASCADIA_DATA", ROOT.parent / "shared" / "data"))


def data_path(name: str) -> Path:
    """The file `name` under the data directory, or `name`.gz; skips the test where neither is there."""
    for path in (data_dir() / name, data_dir() / f"{name}.gz"):
        if path.exists():
            return path
    pytest.skip(absent(name))


ABSENT = "public data is absent"


def absent(name: str) -> str:
    return f"{ABSENT}: set CASCADIA_DATA to the folder that holds {name}"


def is_public(path: object) -> bool:
    """Whether it is, or would be, of the data directory."""
    return isinstance(path, str | Path) and Path(path).resolve().is_relative_to(data_dir().resolve())

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
    pytest.skip(f"public data is absent: set CASCADIA_DATA to the folder that holds {name}")

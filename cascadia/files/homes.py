"""Paths from this user's home. A container's user may have none."""

import os
from pathlib import Path

from cascadia.domain.errors import BadInput


def named_path(folder: Path, name: str | Path) -> Path:
    """`name` from `folder`, or from a home; where it begins with the home of nobody known, as it stands."""
    try:
        return folder / Path(name).expanduser()
    except RuntimeError:
        return folder / name


def cache_folder(kind: str) -> Path:
    """Folder of `kind` under CASCADIA_CACHE_DIR, else XDG_CACHE_HOME/cascadia, else ~/.cache/cascadia. Raises
    `BadInput` where there is no home either."""
    if named := os.environ.get("CASCADIA_CACHE_DIR"):
        return named_path(Path(), named) / kind
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        raise BadInput(
            "HOME", "is not set, and this user has no home", "set CASCADIA_CACHE_DIR to a folder"
        ) from None
    return Path(base) / "cascadia" / kind

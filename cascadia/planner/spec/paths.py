"""A path as a spec names it: from the spec's folder, or from a home."""

from pathlib import Path


def named_path(folder: Path, name: str) -> Path:
    """`name` from `folder`; where it begins with the home of nobody known, as it stands."""
    try:
        return folder / Path(name).expanduser()
    except RuntimeError:
        return folder / name

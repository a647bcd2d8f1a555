"""The public data: files in their original columns under the folder that `CASCADIA_DATA` names."""

import csv
import errno
import gzip
import os
from collections.abc import Iterator
from pathlib import Path

from cascadia.files.homes import named_path

FOLDER_VARIABLE = "CASCADIA_DATA"


def data_folder() -> Path | None:
    """Folder of the data; None where the variable is not set."""
    named = os.environ.get(FOLDER_VARIABLE)
    return named_path(Path(), named) if named else None


def found(name: str) -> Path | None:
    """The file `name` under the data folder, or `name`.gz; None where neither is there."""
    folder = data_folder()
    both = () if folder is None else (folder / name, folder / f"{name}.gz")
    return next((path for path in both if path.is_file()), None)


def data_path(name: str) -> Path:
    """Path as by `found`. Raises FileNotFoundError."""
    path = found(name)
    if path is None:
        raise FileNotFoundError(errno.ENOENT, "public data is absent", str((data_folder() or Path()) / name))
    return path


def content(path: Path) -> bytes:
    """Content of the file, uncompressed."""
    raw = path.read_bytes()
    return gzip.decompress(raw) if path.suffix == ".gz" else raw


def rows(name: str) -> Iterator[dict[str, str]]:
    """Rows of a table, read in place, compressed or not."""
    path = data_path(name)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)

"""A trace file as bytes, compressed or not, before anything is known of its format."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO, cast

from cascadia_traces.errors import BadInput

HEAD_BYTES = 1 << 16
LONGEST_LINE_BYTES = 64 << 20
GZIP_MAGIC = b"\x1f\x8b"
_COMPRESSED = {
    b"\x28\xb5\x2f\xfd": ("compressed by Zstandard", "unpack it, or compress it by gzip"),
    b"BZh": ("compressed by bzip2", "unpack it, or compress it by gzip"),
    b"\xfd7zXZ": ("compressed by xz", "unpack it, or compress it by gzip"),
    b"PK\x03\x04": ("a ZIP archive, as .xlsx is", "unpack it, or save the sheet as CSV"),
}
"""By the first bytes: what a file is that holds no text, and what to do."""


@dataclass(frozen=True, slots=True)
class Source:
    """A readable regular file: its name as the user gave it, and its first HEAD_BYTES, decompressed."""

    path: Path
    gzipped: bool
    head: bytes

    @property
    def name(self) -> str:
        return str(self.path)

    @contextmanager
    def opened(self) -> Iterator[tuple[BufferedIOBase, BinaryIO]]:
        """The decompressed bytes from the start, and the file below, whose position tells the progress."""
        with reading(self.name), self.path.open("rb") as below:
            if self.gzipped:
                with gzip.open(below) as stream:
                    yield cast("BufferedIOBase", stream), below
            else:
                yield cast("BufferedIOBase", below), below


def open_source(path: str | Path) -> Source:
    """Looks at the file; raises BadInput where it is not a readable file or is empty."""
    path = Path(path)
    name = str(path)
    if "\0" in name:
        raise BadInput(repr(name), "a path cannot hold a NUL character", "name a trace file")
    with reading(name):
        if path.is_dir():
            raise BadInput(name, "this is a directory", "name a trace file in it")
        if path.exists() and not path.is_file():
            raise BadInput(name, "this is not a regular file", "write the stream to a file first")
        with path.open("rb") as file:
            start = file.read(8)
        gzipped = start.startswith(GZIP_MAGIC)
        refuse_compressed(name, start)
        source = Source(path, gzipped, b"")
        with source.opened() as (stream, _):
            head = stream.read(HEAD_BYTES)
    if not head.strip():
        raise BadInput(name, "the file is empty", "give a trace with at least one request")
    return Source(path, gzipped, head)


def refuse_compressed(name: str, start: bytes) -> None:
    """Raises BadInput where the file called `name`, which starts with these bytes, is packed otherwise than by gzip."""
    for magic, (what, instead) in _COMPRESSED.items():
        if start.startswith(magic):
            raise BadInput(name, f"is {what}", instead)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turns what the file system or gzip objects to into a BadInput."""
    try:
        yield
    except FileNotFoundError as error:
        raise BadInput(name, "no such file", "check the path") from error
    except PermissionError as error:
        raise BadInput(name, "not allowed to read it", "change its permissions") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(name, f"broken gzip: {error}", "copy or compress it anew") from error
    except OSError as error:
        raise BadInput(name, f"cannot be read: {error.strerror or error}", "check the file") from error

"""Text files that users name: read whole or refused, written whole or not at all."""

import os
from collections.abc import Iterator
from pathlib import Path

from cascadia.domain.errors import BadInput
from cascadia.files.atomic import atomic_write


def read_text(path: str | Path, max_bytes: int) -> str:
    """The text of the file `path`, UTF-8 with or without a byte-order mark."""
    where = str(path)
    try:
        with Path(path).open("rb") as stream:
            content = stream.read(max_bytes + 1)
    except FileNotFoundError:
        raise BadInput(where, "no such file", "check the path") from None
    except IsADirectoryError:
        raise BadInput(where, "is a directory", "name a file") from None
    except (OSError, ValueError) as error:
        raise BadInput(
            where, f"cannot be read ({_reason(error)})", "check the path and its permissions"
        ) from None
    if len(content) > max_bytes:
        raise BadInput(where, f"is larger than {max_bytes:,} bytes", "is this the right file?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(where, f"is not UTF-8 text (byte {error.start})", "is this the right file?") from None


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers from 1 in the file.

    They end at newlines alone: JSON may hold other separators of lines as they are.
    """
    for at, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield at, line.removesuffix("\r")


def write_whole(path: str | Path, text: str, mode: int = 0o644) -> None:
    """Raises `BadInput` where `path` cannot be written."""
    try:
        with atomic_write(Path(path), mode) as part:
            part.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadInput(
            str(path), f"cannot be written ({_reason(error)})", "name a file in a writable folder"
        ) from None


def check_writable(path: str | Path) -> None:
    """Raises `BadInput` where no file can be written at `path`: asked before the work whose result it is to hold."""
    try:
        folder = Path(path).absolute().parent
        if Path(path).is_dir():
            what = "is a folder"
        elif not folder.is_dir():
            what = "lies in a folder that does not exist"
        elif not os.access(folder, os.W_OK | os.X_OK):
            what = "lies in a folder that cannot be written to"
        else:
            return
    except (OSError, ValueError) as error:
        what = f"cannot be written ({_reason(error)})"
    raise BadInput(str(path), what, "name a file in a writable folder")


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)

"""A file that is there whole or not at all, whoever reads meanwhile and whatever ends the writer."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PART = ".part"


@contextmanager
def whole_file(path: Path, mode: int = 0o644) -> Iterator[Path]:
    """A file of another name in `path`'s folder, to be written; at the end it takes `path`'s name, with `mode`.

    It is removed where writing fails. Raises `OSError`.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART, dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        part.chmod(mode)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise

"""Output of a command: results on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, is_dataclass
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascadia.cli.shared.errors import one_line

if TYPE_CHECKING:
    from cascadia.cli.shared.progress import Step

PIPED_COLUMNS = 120
NO_EDGE = 100_000
"""Columns of a console that cuts nothing off."""


@dataclass(frozen=True, slots=True)
class Output:
    """`json`: one JSON document is all that standard output gets. `quiet`: no progress, notes or summary."""

    json: bool = False
    quiet: bool = False

    def show(self, renderable: object, piped_columns: int = PIPED_COLUMNS) -> None:
        """A result for people: text, or anything that rich can print. Left out under --json and --quiet. Where no
        terminal says how wide it is, `piped_columns` are, and as many more as words of a table need."""
        if self.json or self.quiet:
            return
        if isinstance(renderable, str):
            write(renderable)
            return
        from rich.console import Console
        from rich.table import Table

        from cascadia.cli.shared.narrow import fitting, unbroken

        if sys.stdout.isatty():
            console = Console(file=sys.stdout, highlight=False)
            console.print(fitting(renderable, console) if isinstance(renderable, Table) else renderable)
            return
        console = Console(file=StringIO(), width=NO_EDGE, highlight=False)
        with console.capture() as captured:
            whole = unbroken(renderable, console) if isinstance(renderable, Table) else renderable
            console.print(whole, width=piped_columns)
        write("\n".join(line.rstrip() for line in captured.get().splitlines()))

    def document(self, value: object) -> None:
        """The command's one JSON document; nothing without --json."""
        if self.json:
            write(json.dumps(plain(value), indent=2, allow_nan=False))

    def serving(self, document: object, line: str, port: int) -> None:
        """A service's address, once it serves. Under --quiet `line` is left out unless it took a free one for `port` 0,
        which nobody could know."""
        self.document(document)
        if not self.json and not (self.quiet and port):
            write(line)
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """A remark that is no result: on standard error."""
        if not self.quiet:
            remark(one_line(text))

    @contextmanager
    def progress(self, text: str) -> "Iterator[Step]":
        """A bar on standard error while the block runs, where a person is watching and it takes a while.

        The block is handed a function of (share done 0-1, or None where unknown; what is being done).
        """
        if self.quiet or self.json or not sys.stderr.isatty():
            yield _silent
            return
        from cascadia.cli.shared.progress import Bar

        bar = Bar(text)
        try:
            yield bar.step
        finally:
            bar.close()


def remark(line: str) -> None:
    """`line` on standard error. Where that takes none, e.g. of a reader that went, what it is said of goes on."""
    with suppress(OSError):
        print(line, file=sys.stderr)


def write(text: str) -> None:
    """`text` and a line's end on standard output, whatever the flags."""
    print(text.removesuffix("\n"))


def plain(value: object) -> Any:
    """`value` as JSON has it: dataclasses as objects, numpy as numbers and lists, null for inf and NaN."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _silent(share: float | None = None, text: str | None = None) -> None:
    """Progress that nobody watches."""

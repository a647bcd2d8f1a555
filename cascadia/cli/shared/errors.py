"""Every way a command can fail, as one line for people, one object for programs, and an exit code."""

import errno
import os
import re
import signal
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import click

from cascadia.cli.interrupts import WORDS, number_of
from cascadia.domain.errors import BadInput, CascadiaError, Infeasible

DEBUG_VARIABLE = "CASCADIA_DEBUG"
_CLICKS_WORDS = (
    (re.compile(r"a valid float( range)?$"), "a number"),
    (re.compile(r"a valid integer( range)?$"), "a whole number"),
    (re.compile(r"in the range (\S+)<=x<=(\S+)$"), r"from \1 to \2"),
    (re.compile(r"in the range x>=(\S+)$"), r"\1 or more"),
    (re.compile(r"in the range x>(\S+)$"), r"above \1"),
)
"""Words of click that only programmers know."""


@runtime_checkable
class _Refusal(Protocol):
    """Error for input that cannot be used: `BadInput` of cascadia, or of a leaf package, which cannot import it."""

    where: str
    what: str
    instead: str


@dataclass(frozen=True, slots=True)
class Failure:
    """`kind` is one of bad-input, infeasible, usage, interrupted, system, internal."""

    kind: str
    exit_code: int
    message: str
    details: dict[str, str] = field(default_factory=dict)

    @property
    def line(self) -> str:
        return f"error: {self.message}" if self.kind not in ("internal", "infeasible") else self.message

    def document(self) -> dict[str, Any]:
        about = {"kind": self.kind, "exit_code": self.exit_code, "message": self.message}
        return {"error": about | self.details}


def failure(error: BaseException) -> Failure:
    """Message and exit code for `error`. Anything unforeseen is an internal error, never a result."""
    match error:
        case Exception() if isinstance(error, _Refusal):
            return _bad_input(error.where, error.what, error.instead)
        case Infeasible():
            details = {"constraint": error.constraint, "nearest": error.nearest}
            return Failure("infeasible", error.exit_code, one_line(str(error)), _clean(details))
        case CascadiaError():
            return Failure("error", error.exit_code, one_line(str(error)))
        case click.UsageError():
            return Failure("usage", 2, _usage(error))
        case click.ClickException():
            return Failure("error", error.exit_code, one_line(error.format_message()))
        case KeyboardInterrupt():
            number = number_of(error)
            return Failure("interrupted", 128 + number, WORDS[signal.Signals(number)])
        case click.Abort():
            return failure(error.__cause__ or KeyboardInterrupt())
        case OSError() if error.errno == errno.ENAMETOOLONG:
            return _bad_input(
                f"{error.filename or 'a path'!s:.100}...", "is too long a path", "name a shorter one"
            )
        case FileNotFoundError() if error.filename is None and not _here():
            return _bad_input("this folder", "has been removed", "change into one that is there")
        case OSError():
            named = f" ({error.filename})" if error.filename else ""
            return Failure("system", 1, one_line(f"{error.strerror or error}{named}"))
        case MemoryError():
            return Failure("system", 1, "out of memory")
    what = one_line(f"{type(error).__name__}: {error}")
    again = f"please report it, with what {DEBUG_VARIABLE}=1 prints"
    return Failure("internal", 1, f"internal error: {what}; {again}")


def _here() -> bool:
    """Tells whether the folder that this runs in is still there."""
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def is_broken_pipe(error: BaseException) -> bool:
    """The reader of our output went away, e.g. `| head`."""
    return isinstance(error, OSError) and error.errno == errno.EPIPE


def one_line(text: str) -> str:
    """`text` without line breaks, and with anything else that could upset a terminal written as an escape."""
    flat = " ".join(text.split())
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in flat
    )


def _bad_input(where: str, what: str, instead: str) -> Failure:
    message = one_line(str(BadInput(where, what, instead)))
    return Failure("bad-input", 2, message, _clean({"where": where, "what": what, "instead": instead}))


def _clean(details: dict[str, str]) -> dict[str, str]:
    return {key: one_line(value) for key, value in details.items()}


def _usage(error: click.UsageError) -> str:
    command = error.ctx.command_path if error.ctx else "cascadia"
    said = one_line(error.format_message()).rstrip(".")
    for theirs, ours in _CLICKS_WORDS:
        said = theirs.sub(ours, said)
    return f"{said} (see `{command} --help`)"

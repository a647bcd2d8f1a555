"""Errors that say what to do next. The command line turns each into one line and an exit code.

They are not frozen: on its way up, an exception is given its traceback, e.g. by `contextlib.contextmanager`.
"""

from dataclasses import dataclass


class CascadiaError(Exception):
    """Anything the user can be told in one line."""

    exit_code = 1


@dataclass(unsafe_hash=True)
class BadInput(CascadiaError):
    """The input cannot be used: where it stands, what is wrong, what to write instead.

    Leaf packages (simulator, traces, judge) are usable alone and have errors of the same three fields.
    """

    where: str
    what: str
    instead: str = ""

    exit_code = 2

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" + (f"; {self.instead}" if self.instead else "")


@dataclass(unsafe_hash=True)
class OutOfTime(CascadiaError):
    """The time allowed was over before there was an answer, which says nothing of whether there is one."""

    what: str
    instead: str

    def __str__(self) -> str:
        return f"{self.what}; {self.instead}"


@dataclass(unsafe_hash=True)
class Infeasible(CascadiaError):
    """No plan meets the constraints: which one binds, and the nearest value that would do."""

    constraint: str
    nearest: str

    exit_code = 3

    def __str__(self) -> str:
        return f"infeasible: {self.constraint}; {self.nearest}"

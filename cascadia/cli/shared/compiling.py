"""The compiler at work, told to whoever waits: what is compiled first takes longer than the command that needs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

from cascadia.cli.shared.progress import Step

COMPILING = "compiling the simulator, once on this machine"


class _Compiler(event.Listener):
    """Says that the compiler is at work, and afterwards again what it was asked for."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._share: float | None = None
        self._text: str | None = None
        self._under_way = 0

    def step(self, share: float | None = None, text: str | None = None) -> None:
        self._share, self._text = share, text or self._text
        self._step(share, text)

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        self._under_way += 1
        if self._under_way == 1:
            self._step(None, COMPILING)

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        self._under_way -= 1
        if self._under_way == 0:
            self._step(self._share, self._text)


@contextmanager
def telling_of_the_compiler(step: Step) -> Iterator[Step]:
    """`step`, to be used in its place while the block runs, in which something may be compiled."""
    compiler = _Compiler(step)
    with event.install_listener("numba:compile", compiler):
        yield compiler.step

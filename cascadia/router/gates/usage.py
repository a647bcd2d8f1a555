"""Usage of the judges of one request, told beside their verdicts: a gate may ask others, keep or repeat them."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from cascadia.router.openai.answers import Usage

_spent: ContextVar[list[Usage] | None] = ContextVar("spent", default=None)


def spend(usage: Usage) -> None:
    """Counts to the request that the running task belongs to, where one is counted."""
    found = _spent.get()
    if found is not None:
        found.append(usage)


@contextmanager
def counted() -> Iterator[list[Usage]]:
    """Collects what is spent within, by tasks begun within too."""
    found: list[Usage] = []
    token = _spent.set(found)
    try:
        yield found
    finally:
        _spent.reset(token)

"""A search by tests that each take long: the next one is asked ahead, beside the one at hand.

What comes next depends on an answer that is not there yet, so it is guessed; a guess that was wrong costs a test for
nothing. The answer is that of the search by itself.
"""

from collections.abc import Callable
from concurrent.futures import Executor

Test = Callable[[float], bool]
Search = Callable[[Test], float]
"""What a search finds; it asks of the same answers the same questions."""


def asked_ahead(search: Search, test: Test, expected: Test, threads: Executor | None) -> float:
    """What `search` finds by `test`, of which two are made at once where there are `threads`."""
    if threads is None:
        return search(test)
    known: dict[float, bool] = {}
    while (at := _next(search, known)) is not None:
        then = _next(search, known | {at: expected(at)})
        asked = [at] if then is None else [at, then]
        known |= zip(asked, threads.map(test, asked), strict=True)
    return search(known.__getitem__)


def _next(search: Search, known: dict[float, bool]) -> float | None:
    """The first value that the search asks and that is not known; None where it has ended."""
    try:
        search(known.__getitem__)
    except KeyError as unknown:
        value: float = unknown.args[0]
        return value
    return None

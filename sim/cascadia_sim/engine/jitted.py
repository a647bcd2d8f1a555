"""Numba's compiler, on machines without a place for its cache too."""

from collections.abc import Callable
from typing import Any

from numba import njit

AnyFunction = Callable[..., Any]


def jitted(**options: Any) -> Callable[[AnyFunction], Any]:
    """Numba's `njit`, cached on disk where there is a place for it, else compiled in each process.

    Numba refuses a cached function altogether where neither the package's folder nor the home can be written: an
    installation of the system's, run by a user without a home.
    """

    def compiled(function: AnyFunction) -> Any:
        return _cached(function, **options) or njit(**options)(function)

    return compiled


def is_kept() -> bool:
    """Tells whether what is compiled is kept on disk, so that the next process need not compile it."""
    return _cached(is_kept) is not None


def _cached(function: AnyFunction, **options: Any) -> Any:
    """Numba's function, whose compiled form is kept; None where there is no place for that."""
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return None

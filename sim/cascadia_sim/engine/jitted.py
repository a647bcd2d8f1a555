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
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            return njit(**options)(function)

    return compiled

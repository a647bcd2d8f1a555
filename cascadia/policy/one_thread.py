"""Linear algebra on one thread: systems of some hundred unknowns are done sooner than a second thread has begun, and
where other programs run its threads wait for each other at full speed."""

from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")


@cache
def _pools() -> "ThreadpoolController":
    """Pools of the libraries that numpy has loaded; to look for them takes as long as to solve ten systems."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def on_one_thread(work: Callable[P, R]) -> Callable[P, R]:
    """`work` with its linear algebra on one thread."""

    @wraps(work)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        with _pools().limit(limits=1, user_api="blas"):
            return work(*args, **kwargs)

    return alone

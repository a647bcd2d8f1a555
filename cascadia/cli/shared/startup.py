"""Start-up of a command that plans, made quicker. Only for a process of our own."""

import gc
import sys

NEEDLESS = ("scipy", "scipy.linalg", "coverage")
"""Of what is installed, numba imports the first two (a third of a second) on first use, to offer np.dot to compiled
code, and no kernel of ours has linear algebra; and the last to tell it which lines were compiled."""

COLLECT_AFTER = 50_000


def load_numba_alone() -> None:
    """Load numba's array functions as if what it does not need were not installed.

    It leaves compiled code without BLAS.
    """
    if "numba.np.arraymath" in sys.modules or any(name in sys.modules for name in NEEDLESS):
        return
    sys.modules.update(dict.fromkeys(NEEDLESS))  # type: ignore[arg-type]
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        for name in NEEDLESS:
            del sys.modules[name]


def collect_rarely() -> None:
    """Look for garbage less often: modules have many objects, and what planning drops is hardly ever in a cycle."""
    gc.set_threshold(COLLECT_AFTER)

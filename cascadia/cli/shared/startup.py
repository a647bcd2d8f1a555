"""Start-up of a command that plans, made quicker."""

import sys

SCIPY = ("scipy", "scipy.linalg")


def load_numba_without_blas() -> None:
    """Load numba's array functions as if scipy were not installed.

    Where scipy is installed, numba imports scipy.linalg (a third of a second) on first use, to offer np.dot to compiled
    code; no kernel of ours has linear algebra. Only for a process of our own: it leaves compiled code without BLAS.
    """
    if "numba.np.arraymath" in sys.modules or any(name in sys.modules for name in SCIPY):
        return
    sys.modules.update(dict.fromkeys(SCIPY))  # type: ignore[arg-type]
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        for name in SCIPY:
            del sys.modules[name]

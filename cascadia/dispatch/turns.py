"""Turns of mixed routings: one rule for simulated and for served requests.

Requests are counted as they come. The n-th goes by the other routing iff the fractional part of n times the golden
ratio lies below that routing's share: a sequence that keeps to the share over every stretch of requests, to a few of
them (Kronecker; Knuth, The Art of Computer Programming, volume 3, section 6.4), and knows nothing of what is asked.
It is counted in 32 bits, so that all who count get the same.
"""

from typing import overload

import numpy as np
from numpy.typing import NDArray

GOLDEN = 2_654_435_769
"""2^32 over the golden ratio, rounded to an odd number."""
WHOLE = 1 << 32


@overload
def takes_other(turn: int, share: float) -> bool: ...
@overload
def takes_other(turn: NDArray[np.int64], share: float) -> NDArray[np.bool_]: ...
def takes_other(turn: int | NDArray[np.int64], share: float) -> bool | NDArray[np.bool_]:
    """Tells whether requests number `turn`, from 0, go by the routing that gets `share` (0-1) of them?

    >>> [n for n in range(12) if takes_other(n, 0.25)]
    [0, 2, 5, 10]
    """
    return turn % WHOLE * GOLDEN % WHOLE < share * WHOLE

"""A least-recently-used cache of blocks, compiled.

A doubly linked list over block numbers, with the last number as both of its ends: `following[end]` is the block used
last, `preceding[end]` the one that goes first. -1: not kept.
"""

from cascadia_sim.engine.kernel import compiled
from cascadia_sim.iteration.timing import Ints


@compiled
def look_up(
    block: Ints,
    start: Ints,
    looked_up: Ints,
    who: Ints,
    capacity: int,
    following: Ints,
    preceding: Ints,
    taken: Ints,
) -> None:
    """Writes how many leading blocks of each of `who` are kept to `taken`; leaves the list empty for the next."""
    end = following.size - 1
    following[end] = end
    preceding[end] = end
    kept = 0
    for i in range(who.size):
        request = who[i]
        first = start[request]
        leading = 0
        while leading < looked_up[request] and following[block[first + leading]] >= 0:
            leading += 1
        taken[i] = leading
        # The last block first, so that of one request the first stays longest.
        for at in range(start[request + 1] - 1, first - 1, -1):
            this = block[at]
            if following[this] >= 0:
                following[preceding[this]] = following[this]
                preceding[following[this]] = preceding[this]
            else:
                if kept == capacity:
                    oldest = preceding[end]
                    preceding[end] = preceding[oldest]
                    following[preceding[oldest]] = end
                    following[oldest] = -1
                else:
                    kept += 1
            following[this] = following[end]
            preceding[this] = end
            preceding[following[end]] = this
            following[end] = this
    at_end = following[end]
    while at_end != end:
        after = following[at_end]
        following[at_end] = -1
        at_end = after

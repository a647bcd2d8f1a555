"""Requests as routers count them, cut into windows: what a workload log tells half a minute later.

A window begins and ends with a look at the counts, so none is made up between two. It lasts as long as was asked for,
or as few arrivals ask for; one in which the counts were not told, or began anew, is left out.
"""

from collections.abc import Iterator, Sequence
from math import ceil, inf

from cascadia.controller.detect.windows import COUNTED, Window

Look = tuple[float, float]
"""When (Unix time), and how many requests had come by then, since any one beginning."""

LONGEST_S = 60.0
"""Of the windows that arrivals are counted in, unless all are longer."""
LEARNT_S = 300.0
"""Of arrivals, that tell how many usually come."""
JITTER_S = 1.0
"""A look is so much early or late."""
SILENT = 1.5
"""Times the length of a window, after which one is left out."""


class CountedWindows:
    """Windows of at least `shortest_s` that usually hold `least_arrivals`. `fed_until_s`: the end of the last one."""

    def __init__(self, shortest_s: float, least_arrivals: int) -> None:
        self._shortest_s = shortest_s
        self._least_arrivals = least_arrivals
        self._length_s: float | None = None
        self.fed_until_s = -inf

    def next(self, looks: Sequence[Look]) -> Iterator[Window]:
        """Makes those windows that `looks`, oldest first, complete; none before it is known how many usually come."""
        length_s = self._length_s = self._length_s or self._learnt(looks)
        if length_s is None:
            return
        begun: Look | None = None
        for at_s, came in looks:
            if at_s < self.fed_until_s:
                continue
            if begun is None or came < begun[1] or at_s - begun[0] > SILENT * length_s + JITTER_S:
                begun = at_s, came
            elif at_s - begun[0] > length_s - JITTER_S:
                begun_s, before = begun
                begun, self.fed_until_s = (at_s, came), at_s
                yield Window(begun_s, at_s, {COUNTED: (came - before) / (at_s - begun_s)})

    def forget(self) -> None:
        """Learns anew how many usually come."""
        self._length_s = None

    def _learnt(self, looks: Sequence[Look]) -> float | None:
        if not looks or looks[-1][0] - looks[0][0] < LEARNT_S - JITTER_S:
            return None
        recent = [look for look in looks if look[0] >= looks[-1][0] - LEARNT_S - JITTER_S]
        return usual_length_s(self._shortest_s, self._least_arrivals, recent[-1][1] - recent[0][1])


def usual_length_s(shortest_s: float, least_arrivals: int, came: float) -> float:
    """The length of the windows that usually hold `least_arrivals`, where `came` did in `LEARNT_S`."""
    if not least_arrivals:
        return shortest_s
    wanted = ceil(least_arrivals * LEARNT_S / shortest_s / max(came, 1.0))
    return shortest_s * max(1, min(wanted, int(LONGEST_S / shortest_s)))

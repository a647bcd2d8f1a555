"""Requests that a full stage turned away, taken for ones that wait there.

A router refuses whoever would wait longer than its queue_s. So what a stage has in hand stops growing just where it is
short of replicas, however many more come, and a fourth of all requests can be lost beside a queue that seems to ask for
nothing. Each of those counts as in hand for as long as it would have waited at least.
"""

from collections import deque
from dataclasses import replace

from cascadia.controller.scale.size import Load


class TurnedAway:
    """Record of how many had been turned away by when."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, float]]] = {}

    def as_waiting(self, at_s: float, load: Load) -> Load:
        """`load`, with those in hand as well who were turned away within the last `load.waits_s`."""
        in_hand = dict(load.in_hand)
        for stage, away in load.turned_away.items():
            seen = self._seen.setdefault(stage, deque([(at_s, away)]))
            seen.append((at_s, away))
            while seen[1][0] <= at_s - load.waits_s:
                seen.popleft()
            in_hand[stage] = in_hand.get(stage, 0.0) + away - seen[0][1]
        return replace(load, in_hand=in_hand)

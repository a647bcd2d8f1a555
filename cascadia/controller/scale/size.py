"""Numbers of replicas by kind: for the rate to come and what is in hand, and none stopped before it was quiet.

Pure: a `Load` in, counts by kind out. `Quiet` remembers what was wanted of late, since nothing is stopped that was
wanted within `quiet_s`.
"""

from collections import deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from math import floor

from cascadia.controller.move.state import Kind, Observed
from cascadia.controller.scale.sizes import StageSize

EVEN = 1e-6
LASTING_S = CLEARED_S = 60.0
QUEUE_S = 60.0
"""The router's queue_s where it tells none."""
MOST_TIMES = 4.0
"""What is heavier than that wants another plan."""


@dataclass(frozen=True, slots=True)
class Load:
    """`came`: requests since any one beginning. `in_hand`: by stage, those that its replicas have or that wait;
    `turned_away`: those that it had no place for, since any one beginning. `waits_s`: of who would wait longer."""

    came: float
    in_hand: Mapping[str, float] = field(default_factory=dict)
    turned_away: Mapping[str, float] = field(default_factory=dict)
    waits_s: float = QUEUE_S


def clearing_rps(size: StageSize, rate_rps: float, in_hand: float, there: Mapping[Kind, int]) -> float:
    """Capacity that a stage needs which had so many in hand all the while: what is `there`, which did not do, and what
    ends within `CLEARED_S` the queue beyond the plan's latency at this rate. 0: there is none."""
    queue = in_hand - size.holds_s * rate_rps * size.reached
    return size.capacity_rps(there) + queue / CLEARED_S if size.holds_s and queue > 0.0 else 0.0


def counts_for(size: StageSize, rate_rps: float, times: float = 1.0) -> dict[Kind, int]:
    """Counts that the plan was simulated with at that rate, where it tells; else its mix of kinds as near as it goes,
    and at least one replica. `times` as much work asks for so much more capacity."""
    if not size.reached:
        return dict(size.counts)
    if not size.steps:
        return _mixed(size, size.counts, times * rate_rps * size.reached)
    at_rps, known = next((step for step in size.steps if step[0] >= rate_rps * (1.0 - EVEN)), size.steps[-1])
    beyond = rate_rps > at_rps * (1.0 + EVEN) or rate_rps < size.steps[0][0]
    times *= rate_rps / at_rps if beyond else 1.0
    return dict(known) if abs(times - 1.0) <= EVEN else _mixed(size, known, times * size.capacity_rps(known))


def asked_rps(size: StageSize, rate_rps: float) -> float:
    """Capacity that is there for so many requests a second."""
    return size.capacity_rps(counts_for(size, rate_rps)) if size.steps else rate_rps * size.reached


def _mixed(size: StageSize, counts: Mapping[Kind, int], needed_rps: float) -> dict[Kind, int]:
    share = needed_rps / size.capacity_rps(counts)
    # At the planned rate exactly as many as planned, whatever the division's last digit.
    found = {kind: floor(share * count + EVEN) for kind, count in counts.items()}
    while (short_rps := needed_rps - size.capacity_rps(found)) > EVEN * needed_rps or not any(found.values()):
        kind = _cheapest(size, short_rps)
        found[kind] += 1
    return found


def _cheapest(size: StageSize, short_rps: float) -> Kind:
    """Chooses, of those that close the gap, the one with the fewest GPUs; else who does most with a GPU."""
    enough = [kind for kind, rps in size.gives_rps.items() if rps >= short_rps]
    if enough:
        return min(enough, key=lambda kind: (kind.gpus, kind))
    return max(size.gives_rps, key=lambda kind: (size.gives_rps[kind] / max(1, kind.gpus), kind))


class Queues:
    """Record of what was in hand of each stage all through the last `LASTING_S`, or as long as a replica takes to be
    ready: a queue that is there for less has passed by then, as a burst's does. Of a stage that has just grown it
    begins anew, as who was started is there for what waits."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, float]]] = {}

    def least(self, at_s: float, load: Load, grows: Container[str], startup_s: float) -> Mapping[str, float]:
        """Adds what is in hand now, and tells what was there all the while and, falling as it does, will be in
        `startup_s`; nothing, before so long was seen. `grows`: stages of which a replica is starting."""
        return {
            stage: self._stays(stage, at_s, held, stage in grows, startup_s)
            for stage, held in load.in_hand.items()
        }

    def _stays(self, stage: str, at_s: float, held: float, grows: bool, startup_s: float) -> float:
        seen = self._seen.setdefault(stage, deque())
        if grows:
            seen.clear()
        seen.append((at_s, held))
        lasting_s = max(LASTING_S, startup_s)
        while len(seen) > 1 and seen[1][0] <= at_s - lasting_s:
            seen.popleft()
        began_s, before = seen[0]
        if at_s - began_s < lasting_s:
            return 0.0
        falls = max(0.0, before - held) / (at_s - began_s)
        return max(0.0, min(each for _, each in seen) - falls * startup_s)


class Heavier:
    """Times as many requests as come that a stage was seen to need replicas for, since they are longer than planned: a
    queue tells. Once that is gone for `quiet_s` one replica is tried without, and then another."""

    def __init__(self, quiet_s: float) -> None:
        self._quiet_s = quiet_s
        self._times: dict[str, tuple[float, float]] = {}
        """By stage, and since when."""

    def times(self, at_s: float, size: StageSize, rate_rps: float, needs_rps: float) -> float:
        """At least 1. `needs_rps`: as of `clearing_rps`."""
        times, since_s = self._times.get(size.stage, (1.0, at_s))
        if not (asked := asked_rps(size, rate_rps)):
            return times
        if needs_rps:
            times, since_s = min(MOST_TIMES, max(times, needs_rps / asked)), at_s
        elif at_s >= since_s + self._quiet_s:
            times, since_s = max(1.0, times - min(size.gives_rps.values()) / asked), at_s
        self._times[size.stage] = times, since_s
        return times


class Quiet:
    """The most that was wanted of each kind within the last `quiet_s`."""

    def __init__(self, quiet_s: float) -> None:
        self._quiet_s = quiet_s
        self._wanted: deque[tuple[float, dict[Kind, int]]] = deque()

    def most(self, at_s: float, wanted: dict[Kind, int]) -> dict[Kind, int]:
        self._wanted.append((at_s, wanted))
        while self._wanted[0][0] < at_s - self._quiet_s:
            self._wanted.popleft()
        return {kind: max(each.get(kind, 0) for _, each in self._wanted) for kind in wanted}


def within(
    observed: Observed, sizes: Iterable[StageSize], wanted: Mapping[Kind, int], there: Mapping[Kind, int]
) -> tuple[dict[Kind, int], bool]:
    """Cuts `wanted` to what there are GPUs for beside what is `there`, and tells whether that is less: the ceiling."""
    free = {pool: gpus - observed.used(pool) for pool, gpus in observed.gpus.items()}
    return fitting(sizes, wanted, there, free)


def fitting(
    sizes: Iterable[StageSize], wanted: Mapping[Kind, int], there: Mapping[Kind, int], free: Mapping[str, int]
) -> tuple[dict[Kind, int], bool]:
    """Counts as of `within`, on the GPUs that are `free` by pool. The next replica goes to the stage that has the
    smallest part of what it wants."""
    found = {kind: min(count, there.get(kind, 0)) for kind, count in wanted.items()}
    free, sizes = dict(free), list(sizes)
    while True:
        short = [
            (size.capacity_rps(found) / max(size.capacity_rps(wanted), EVEN), kind)
            for size in sizes
            for kind in size.counts
            if found[kind] < wanted[kind] and kind.gpus <= free.get(kind.pool, 0)
        ]
        if not short:
            return found, any(found[kind] < count for kind, count in wanted.items())
        kind = min(short)[1]
        found[kind] += 1
        free[kind.pool] -= kind.gpus

"""The page of several processes: each tells its share, and whichever is asked adds them up."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from cascadia.router.telemetry.counters import Spread
from cascadia.router.ui.history import Tick, quantile, summed
from cascadia.router.ui.process_state import add_replica

RECENT = 40
Loads = Sequence[tuple[int, dict[str, float]]]
"""Of each tick that is kept: requests under way at its end, and how many came in it by their gear."""
Parts = Sequence[tuple[float, list[int]]]
"""Of each tick that is kept: its seconds, and how many requests took how long."""


@dataclass(frozen=True, slots=True)
class Share:
    """`moved` is what was counted in the window, `now` what is no count; `loads` are of the same ticks as `series`."""

    moved: Tick
    series: Parts
    now: dict[str, Any]
    loads: Loads = ()


def written(share: Share) -> bytes:
    moved = share.moved
    counts = list(moved.counts.items())
    spreads = [(key, list(values)) for key, values in moved.spreads.items()]
    return orjson.dumps([moved.at_s, counts, spreads, share.series, share.now, share.loads])


def read_share(text: bytes) -> Share:
    at_s, counts, spreads, series, now, loads = orjson.loads(text)
    tick = Tick(
        at_s,
        {tuple(key): value for key, value in counts},
        {tuple(key): array("d", values) for key, values in spreads},
    )
    return Share(tick, series, now, loads)


def readable(text: bytes, upper: Sequence[float]) -> Share | None:
    """The share of a router elsewhere; None where it is of another form: a router may have this version's number and
    not its code. `upper`: bounds of the buckets that its requests' seconds are in."""
    try:
        share = read_share(text)
        together([share.now])
        series_of([share.series], upper)
        loads_of([share.loads])
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        return None
    return share


def together(nows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    replicas: dict[str, dict[str, Any]] = {}
    waiting: dict[str, int] = {}
    for now in nows:
        for replica in now["replicas"]:
            add_replica(replicas, replica["name"], replica, "room")
        for stage, count in now["waiting"].items():
            waiting[stage] = waiting.get(stage, 0) + count
    recent = sorted((one for now in nows for one in now["recent"]), key=lambda one: -one["at_s"])
    return {
        "ready": all(now["ready"] for now in nows),
        "draining": any(now["draining"] for now in nows),
        "uptime_s": max(now["uptime_s"] for now in nows),
        "running": sum(now["running"] for now in nows),
        "waiting": waiting,
        "replicas": list(replicas.values()),
        "recent": recent[:RECENT],
    }


def series_of(several: Sequence[Parts], upper: Sequence[float]) -> list[dict[str, float | None]]:
    """A point for each tick, the last ones together: who began later has fewer."""
    points = []
    for back in range(max(map(len, several)), 0, -1):
        parts = [series[-back] for series in several if len(series) >= back]
        per_s = sum(sum(counts) / seconds for seconds, counts in parts if seconds > 0)
        points.append({"per_s": per_s, "p95_s": quantile(_summed(parts, upper), 0.95)})
    return points


def loads_of(several: Sequence[Loads]) -> list[dict[str, Any]]:
    """A point for each tick, of all processes together, as of `series_of`."""
    points = []
    for back in range(max(map(len, several)), 0, -1):
        parts = [loads[-back] for loads in several if len(loads) >= back]
        gears: dict[str, float] = {}
        for _, by_gear in parts:
            for gear, count in by_gear.items():
                gears[gear] = gears.get(gear, 0.0) + count
        points.append({"in_flight": sum(running for running, _ in parts), "gears": gears})
    return points


def _summed(parts: Parts, upper: Sequence[float]) -> Spread:
    spreads = []
    for _, counts in parts:
        spread = Spread(upper)
        spread.counts = counts
        spreads.append(spread)
    return summed(spreads, upper)

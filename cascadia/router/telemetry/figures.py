"""Figures in Prometheus' format, a few of them in a turn of the event loop: all take six milliseconds and more."""

import asyncio
from collections.abc import Iterable, Sequence

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

SAMPLES_A_TURN = 64
"""At least, where there are so many: a family is parted where it has more than `MOST_A_TURN`."""
MOST_A_TURN = 128


class Families(Collector):
    """Families that were collected before."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


async def figures(registry: Collector) -> bytes:
    parts: list[bytes] = []
    few: list[Metric] = []
    for family in registry.collect():
        first, *others = _parted(family)
        if others:
            # To collect it was a turn.
            await asyncio.sleep(0)
        few.append(first)
        if sum(len(each.samples) for each in few) >= SAMPLES_A_TURN:
            parts.append(generate_latest(Families(few)))
            few = []
            await asyncio.sleep(0)
        for other in others:
            # Its head stands before the first.
            parts.append(_without_head(generate_latest(Families([other]))))
            await asyncio.sleep(0)
    return b"".join([*parts, generate_latest(Families(few))])


def _parted(family: Metric) -> list[Metric]:
    """The family in parts of `MOST_A_TURN` samples: of 400 replicas it would take 20 ms."""
    if len(family.samples) <= MOST_A_TURN:
        return [family]
    parts = []
    for begin in range(0, len(family.samples), MOST_A_TURN):
        part = Metric(family.name, family.documentation, family.type)
        part.samples = family.samples[begin : begin + MOST_A_TURN]
        parts.append(part)
    return parts


def _without_head(text: bytes) -> bytes:
    """Text of one family without the two lines that say what it is."""
    return text.split(b"\n", 2)[2]

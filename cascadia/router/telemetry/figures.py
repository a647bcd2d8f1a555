"""Figures in Prometheus' format, a few of them in a turn of the event loop: all take six milliseconds and more."""

import asyncio
from collections.abc import Iterable, Sequence

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

SAMPLES_A_TURN = 64
"""At least, where there are so many: no family is parted."""


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
        few.append(family)
        if sum(len(each.samples) for each in few) >= SAMPLES_A_TURN:
            parts.append(generate_latest(Families(few)))
            few = []
            await asyncio.sleep(0)
    return b"".join([*parts, generate_latest(Families(few))])

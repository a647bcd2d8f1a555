"""Figures of several workers as one: whichever is asked asks the others, each at a Unix socket that only they reach.

Counters and histograms are added up; gauges get the label `worker`, since a sum of thresholds means nothing.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

PATIENCE_S = 1.0
"""A worker that does not answer within this time is left out, and missing in `cascadia_workers`."""


class Siblings:
    """`number` is this worker's among `count`; `own` gives its figures. `start` and `stop` in its event loop."""

    def __init__(self, folder: Path, number: int, count: int, own: Callable[[], bytes]) -> None:
        self.folder = folder
        self.number = number
        self.count = count
        self.own = own
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        path = self._path(self.number)
        path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._answer, path)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._path(self.number).unlink(missing_ok=True)

    async def merged(self) -> bytes:
        """The figures of all that answer."""
        others = [number for number in range(self.count) if number != self.number]
        texts = await asyncio.gather(*(self._asked(number) for number in others))
        told = {self.number: self.own()} | {n: t for n, t in zip(others, texts, strict=True) if t is not None}
        return generate_latest(_Families(list(merge({n: told[n].decode() for n in sorted(told)}))))

    async def _asked(self, number: int) -> bytes | None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                reader, writer = await asyncio.open_unix_connection(self._path(number))
                try:
                    return await reader.read()
                finally:
                    writer.close()
        return None

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(self.own())
            await writer.drain()
        writer.close()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number}.sock"


def merge(texts: dict[int, str]) -> Iterator[Metric]:
    """`texts` in Prometheus' format, by worker."""
    families: dict[str, Metric] = {}
    sums: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for worker, text in texts.items():
        for found in text_string_to_metric_families(text):
            family = families.setdefault(found.name, Metric(found.name, found.documentation, found.type))
            for sample in found.samples:
                if found.type not in ("counter", "histogram"):
                    labels = {**sample.labels, "worker": str(worker)}
                    family.samples.append(Sample(sample.name, labels, sample.value))
                    continue
                key = sample.name, frozenset(sample.labels.items())
                if key not in sums:
                    family.samples.append(Sample(sample.name, sample.labels, 0.0))
                sums[key] = sums.get(key, 0.0) + sample.value
    for family in families.values():
        if family.type in ("counter", "histogram"):
            family.samples = [
                Sample(s.name, s.labels, sums[s.name, frozenset(s.labels.items())]) for s in family.samples
            ]
        yield family
    workers = Metric("cascadia_workers", "Processes that answered for these figures.", "gauge")
    workers.samples.append(Sample("cascadia_workers", {}, float(len(texts))))
    yield workers


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families

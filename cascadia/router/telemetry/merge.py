"""Figures of several processes as one.

Counters and histograms are added up; gauges get the label `worker`, since a sum of thresholds means nothing.
"""

from collections.abc import Iterable, Iterator
from math import floor

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from cascadia.router.telemetry.figures import Families

COUNTED = ("counter", "histogram")
_GRID = 2.0**20
_FINE_BELOW = 2.0**33
"""Multiples of 1 / `_GRID` below this, and whole numbers below 2^53, add up to the same in any order. Sums that are
rounded in another order go back by a last digit, which is a new beginning to Prometheus."""


def merged(texts: dict[int, bytes], kept: Iterable[bytes] = (), stale: int = 0) -> bytes:
    """`texts` in Prometheus' format, by worker; of those that were `kept` what is counted. `stale`: processes among
    these that live."""
    now = {number: texts[number].decode() for number in sorted(texts)}
    return generate_latest(Families(list(merge(now, [text.decode() for text in kept], stale))))


def counted(texts: Iterable[bytes]) -> bytes:
    """What these count together; no gauge of theirs."""
    return generate_latest(Families(list(_Sums((), [text.decode() for text in texts]).families())))


def merge(texts: dict[int, str], kept: Iterable[str] = (), stale: int = 0) -> Iterator[Metric]:
    """As `merged`."""
    yield from _Sums(texts.items(), kept).families()
    yield _gauge("cascadia_workers", "Processes that answered for these figures.", len(texts))
    yield _gauge("cascadia_workers_stale", "Processes that count here as they last answered.", stale)


class _Sums:
    """`texts` by worker; `kept` of nobody, without gauges."""

    def __init__(self, texts: Iterable[tuple[int, str]], kept: Iterable[str]) -> None:
        self._families: dict[str, Metric] = {}
        self._sums: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for worker, text in texts:
            self._add(text, worker)
        for text in kept:
            self._add(text, None)

    def families(self) -> Iterator[Metric]:
        for family in self._families.values():
            if family.type in COUNTED:
                family.samples = [
                    Sample(s.name, s.labels, self._sums[s.name, frozenset(s.labels.items())])
                    for s in family.samples
                ]
            yield family

    def _add(self, text: str, worker: int | None) -> None:
        for found in text_string_to_metric_families(text):
            if worker is None and found.type not in COUNTED:
                continue
            family = self._families.setdefault(
                found.name, Metric(found.name, found.documentation, found.type)
            )
            for sample in found.samples:
                if found.type not in COUNTED:
                    labels = {**sample.labels, "worker": str(worker)}
                    family.samples.append(Sample(sample.name, labels, sample.value))
                    continue
                key = sample.name, frozenset(sample.labels.items())
                if key not in self._sums:
                    family.samples.append(Sample(sample.name, sample.labels, 0.0))
                self._sums[key] = self._sums.get(key, 0.0) + _on_grid(sample.value)


def _on_grid(value: float) -> float:
    return floor(value * _GRID) / _GRID if abs(value) < _FINE_BELOW else value


def _gauge(name: str, text: str, value: float) -> Metric:
    metric = Metric(name, text, "gauge")
    metric.samples.append(Sample(name, {}, float(value)))
    return metric

"""Counters and histograms of one thread: an addition each, where prometheus_client takes a lock and four calls.

The router counts eight things a request. Everything runs in one event loop, the scrape included, so nothing is torn.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class Count:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, by: float = 1.0) -> None:
        self.value += by


class Spread:
    """`upper` bounds, ascending; what is above them all is counted too."""

    __slots__ = ("counts", "total", "upper")

    def __init__(self, upper: Sequence[float]) -> None:
        self.upper = upper
        self.counts = [0] * (len(upper) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.upper, value)] += 1
        self.total += value

    def observe_none(self) -> None:
        """Counts as `observe` of 0, which no bound is below."""
        self.counts[0] += 1

    @property
    def count(self) -> int:
        return sum(self.counts)


class Counts(Collector):
    """A counter and its children by label values."""

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self.name, self.text, self.label_names = name, text, labels
        self.children: dict[tuple[str, ...], Count] = {}

    def labels(self, *values: str) -> Count:
        child = self.children.get(values)
        if child is None:
            child = self.children[values] = Count()
        return child

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self.name, self.text, labels=self.label_names)
        for values, child in self.children.items():
            family.add_metric(values, child.value)
        yield family


class Spreads(Collector):
    """A histogram and its children by label values."""

    def __init__(self, name: str, text: str, labels: Sequence[str], upper: Sequence[float]) -> None:
        self.name, self.text, self.label_names, self.upper = name, text, labels, upper
        self.children: dict[tuple[str, ...], Spread] = {}

    def labels(self, *values: str) -> Spread:
        child = self.children.get(values)
        if child is None:
            child = self.children[values] = Spread(self.upper)
        return child

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self.name, self.text, labels=self.label_names)
        for values, child in self.children.items():
            buckets, below = [], 0
            for upper, count in zip((*self.upper, float("inf")), child.counts, strict=True):
                below += count
                buckets.append(("+Inf" if upper == float("inf") else str(upper), below))
            family.add_metric(values, buckets, child.total)
        yield family

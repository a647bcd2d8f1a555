"""Figures of several processes as one.

Counters and histograms are added up; gauges get the label `worker`, since a sum of thresholds means nothing.
"""

from collections.abc import Iterator

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from cascadia.router.telemetry.figures import Families


def merged(texts: dict[int, bytes]) -> bytes:
    """`texts` in Prometheus' format, by worker."""
    return generate_latest(Families(list(merge({n: texts[n].decode() for n in sorted(texts)}))))


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

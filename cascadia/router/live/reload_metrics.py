"""Metrics of plans, and of the replicas that leave with them."""

from collections.abc import Iterator
from typing import Protocol

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from cascadia.router.live.metrics_state import STATES
from cascadia.router.replicas.draining import Departing
from cascadia.router.replicas.stage import Stage
from cascadia.router.telemetry.counters import Counts
from cascadia.router.telemetry.metrics import Metrics


class HasPlan(Protocol):
    """A plan's digest and stages, and the replicas that leave with older ones."""

    @property
    def metrics(self) -> Metrics: ...

    @property
    def digest(self) -> str: ...

    @property
    def all_stages(self) -> list[Stage]: ...

    @property
    def departing(self) -> Departing: ...


class PlanMetrics(Collector):
    """Read from `router` when it is asked for. `reloads` has `outcome`: swapped, unchanged, refused."""

    def __init__(self, router: HasPlan) -> None:
        self._router = router
        self.reloads = Counts("cascadia_reloads", "Times that files were read again.", ("outcome",))
        for outcome in ("swapped", "unchanged", "refused"):
            # A rate sees an increase only from a number that was there before.
            self.reloads.labels(outcome)
        router.metrics.registry.register(self.reloads)
        router.metrics.registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """Describes no metric: there is nothing to look up while the router is being put together."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        plan = GaugeMetricFamily("cascadia_plan", "1 for the plan in force.", labels=("digest",))
        plan.add_metric((self._router.digest,), 1.0)
        yield plan
        replicas = GaugeMetricFamily(
            "cascadia_replicas", "How many are in each state.", labels=("stage", "state")
        )
        for stage in self._router.all_stages:
            for state in STATES:
                replicas.add_metric((stage.name, state), sum(r.state == state for r in stage.replicas))
        yield replicas
        leaving = GaugeMetricFamily(
            "cascadia_replicas_leaving", "Replicas of no plan that finish their work."
        )
        leaving.add_metric((), sum(1 for _ in self._router.departing))
        yield leaving

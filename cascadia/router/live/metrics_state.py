"""Metrics that are states and no events: read from the router when Prometheus asks, so that it is what is in
force then.
"""

from collections.abc import Iterator
from typing import Protocol, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from cascadia.router.live.fleet_load import FleetLoad
from cascadia.router.live.gears import Gears
from cascadia.router.replicas.replica import State
from cascadia.router.replicas.stage import Stage

STATES: tuple[State, ...] = get_args(State)


class HasStages(Protocol):
    """Stages that serve now. `judge` is among `all_stages` where it has engines."""

    @property
    def ready(self) -> bool: ...

    @property
    def all_stages(self) -> list[Stage]: ...

    @property
    def judge(self) -> Stage | None: ...

    @property
    def gears(self) -> Gears | None: ...

    @property
    def load(self) -> FleetLoad: ...


class RouterState(Collector):
    """`router`'s stages as they are at this moment, after whatever change of plan."""

    def __init__(self, router: HasStages) -> None:
        self.router = router

    def collect(self) -> Iterator[Metric]:
        router = self.router
        yield GaugeMetricFamily("cascadia_ready", "1: a request would be served.", float(router.ready))
        waits_s = max(stage.limits.queue_s for stage in router.all_stages)
        yield GaugeMetricFamily("cascadia_queue_limit_seconds", "Who would wait longer is refused.", waits_s)
        yield from _of_gears(router)
        queue = _family("stage_queue_length", "Requests that wait for a replica.", "stage")
        running = _family("stage_in_flight", "Requests that replicas have in hand.", "stage")
        threshold = _family("stage_threshold", "In force; of the last stage it is not used.", "stage")
        cost = _family("stage_cost", "Of a token, on the scale that the configuration chose.", "stage")
        yield from _of_timed(router)
        for stage in router.all_stages:
            queue.add_metric((stage.name,), len(stage.wait_queue))
            running.add_metric((stage.name,), sum(replica.running for replica in stage.replicas))
            if stage is not router.judge:
                threshold.add_metric((stage.name,), stage.settings.threshold)
            if stage.settings.cost is not None:
                cost.add_metric((stage.name,), stage.settings.cost)
        yield from (queue, running, threshold, cost)
        yield from _of_replicas(router)


def _of_replicas(router: HasStages) -> Iterator[Metric]:
    """One family after the other: of many replicas each takes a while, and whoever collects them rests between."""
    there = [((stage.name, r.name), r) for stage in router.all_stages for r in stage.replicas]
    state = _family("replica_state", "1 for the state that it is in.", "stage", "replica", "state")
    for names, replica in there:
        for one in STATES:
            state.add_metric((*names, one), float(replica.state == one))
    yield state
    ill = _family("replica_unhealthy", "1: why its health check fails.", "stage", "replica", "why")
    for names, replica in there:
        if replica.ill:
            ill.add_metric((*names, replica.ill), 1.0)
    yield ill
    opened = _family("replica_breaker_open", "1: left alone after failures.", "stage", "replica")
    for names, replica in there:
        opened.add_metric(names, float(not replica.breaker.closed))
    yield opened
    in_hand = _family("replica_in_flight", "Requests that it has in hand.", "stage", "replica")
    for names, replica in there:
        in_hand.add_metric(names, replica.running)
    yield in_hand


def _of_timed(router: HasStages) -> Iterator[Metric]:
    """Families of stages whose balancing foresees how long answers take; none where no stage's does."""
    timed = [
        (stage.name, stage.admission.timed)
        for stage in router.all_stages
        if stage.admission.timed is not None
    ]
    if not timed:
        return
    relied = _family(
        "stage_foresees", "1: replicas are chosen by the times foreseen, 0: by work in hand.", "stage"
    )
    error = _family("latency_error", "Mean relative error of the times foreseen.", "stage", "kind")
    explained = _family(
        "length_explained", "Share of the variance of answers' lengths that was foretold.", "stage"
    )
    for name, rule in timed:
        relied.add_metric((name,), float(rule.relied))
        explained.add_metric((name,), rule.length.explained)
        for kind, model in rule.models.items():
            error.add_metric((name, kind), model.error)
    yield from (relied, error, explained)
    matchings = [
        (stage.name, stage.admission.matching)
        for stage in router.all_stages
        if stage.admission.matching is not None
    ]
    if not matchings:
        return
    matches = CounterMetricFamily(
        "cascadia_matches", "Times that waiting requests were given to replicas together.", labels=("stage",)
    )
    slow = CounterMetricFamily(
        "cascadia_slow_matches", "Those of them that took over 1 ms.", labels=("stage",)
    )
    for name, matching in matchings:
        matches.add_metric((name,), matching.matches)
        slow.add_metric((name,), matching.slow)
    yield from (matches, slow)


def _of_gears(router: HasStages) -> Iterator[Metric]:
    gears = router.gears
    if gears is not None:
        yield GaugeMetricFamily("cascadia_gear", "In force; 0 is the heaviest.", float(gears.number))
        load = "Requests under way in all processes, as far as they are known."
        yield GaugeMetricFamily("cascadia_fleet_in_flight", load, float(router.load.total))
        ready = "Share of the planned load that the ready replicas carry, of the stage that carries least."
        yield GaugeMetricFamily("cascadia_capacity", ready, gears.capacity)


def _family(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"cascadia_{name}", text, labels=labels)

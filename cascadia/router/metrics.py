"""What Prometheus sees. Names and labels are documented in docs/reference/router.md.

`.labels()` costs a microsecond: each place that counts holds on to its child.
"""

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
SCORES = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0)


class StageMetrics:
    """Of one stage."""

    def __init__(self, metrics: "Metrics", stage: str) -> None:
        self._metrics = metrics
        self._stage = stage
        self._cached: dict[tuple[str, str], Counter] = {}
        self.requests = metrics.stage_requests.labels(stage)
        self.accepted = metrics.accepted.labels(stage)
        self.score = metrics.score.labels(stage)
        self.seconds = metrics.stage_seconds.labels(stage)
        self.ttft = metrics.ttft.labels(stage)
        self.input_tokens = metrics.tokens.labels(stage, "input")
        self.output_tokens = metrics.tokens.labels(stage, "output")

    def escalated(self, reason: str) -> None:
        self._count(self._metrics.escalated, reason)

    def upstream_error(self, kind: str) -> None:
        self._count(self._metrics.upstream_errors, kind)

    def judge_failed(self, kind: str) -> None:
        self._count(self._metrics.judge_failures, kind)

    def _count(self, counter: Counter, value: str) -> None:
        key = (counter._name, value)
        child = self._cached.get(key)
        if child is None:
            child = self._cached[key] = counter.labels(self._stage, value)
        child.inc()


@dataclass(slots=True)
class Metrics:
    """A registry of its own, so that two routers in one process do not share figures."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    running: int = 0
    requests: Counter = field(init=False)
    request_seconds: Histogram = field(init=False)
    stage_requests: Counter = field(init=False)
    accepted: Counter = field(init=False)
    escalated: Counter = field(init=False)
    score: Histogram = field(init=False)
    stage_seconds: Histogram = field(init=False)
    ttft: Histogram = field(init=False)
    tokens: Counter = field(init=False)
    upstream_errors: Counter = field(init=False)
    judge_seconds: Histogram = field(init=False)
    judge_failures: Counter = field(init=False)
    log_failures: Counter = field(init=False)
    _requests: dict[tuple[str, int], Counter] = field(default_factory=dict)
    _seconds: dict[str, Histogram] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def counter(name: str, text: str, labels: tuple[str, ...]) -> Counter:
            return Counter(f"cascadia_{name}", text, labels, registry=self.registry)

        def histogram(
            name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...] = SECONDS
        ) -> Histogram:
            return Histogram(f"cascadia_{name}", text, labels, registry=self.registry, buckets=buckets)

        self.requests = counter("requests", "Requests by model asked for and status.", ("model", "status"))
        self.request_seconds = histogram("request_seconds", "End to end.", ("model",))
        in_flight = Gauge("cascadia_in_flight", "Requests under way.", registry=self.registry)
        in_flight.set_function(lambda: self.running)
        self.stage_requests = counter("stage_requests", "Requests that reached a stage.", ("stage",))
        self.accepted = counter("stage_accepted", "Answers of a stage that a client got.", ("stage",))
        self.escalated = counter("stage_escalated", "Requests that went on.", ("stage", "reason"))
        self.score = histogram(
            "stage_score", "Verdicts on a stage's answers, 0-100.", ("stage",), buckets=SCORES
        )
        self.stage_seconds = histogram("stage_seconds", "Queue and answer.", ("stage",))
        self.ttft = histogram("stage_ttft_seconds", "To a live stream's first part.", ("stage",))
        self.tokens = counter("stage_tokens", "As engines count them.", ("stage", "direction"))
        self.upstream_errors = counter("upstream_errors", "Exchanges that failed.", ("stage", "kind"))
        self.judge_seconds = histogram("judge_seconds", "Time of a verdict.", ())
        self.judge_failures = counter("judge_failures", "Answers without verdict.", ("stage", "kind"))
        self.log_failures = counter("log_failures", "Log lines that could not be written.", ())

    def stage(self, name: str) -> StageMetrics:
        return StageMetrics(self, name)

    def done(self, model: str, status: int, seconds: float) -> None:
        """`model` is one that is served, or `other`: what clients write must not become labels without bound."""
        counter = self._requests.get((model, status))
        if counter is None:
            counter = self._requests[model, status] = self.requests.labels(model, str(status))
            self._seconds[model] = self.request_seconds.labels(model)
        counter.inc()
        self._seconds[model].observe(seconds)

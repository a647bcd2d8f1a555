"""What Prometheus sees. Names and labels are documented in docs/reference/router.md."""

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Gauge

from cascadia.router.tally import Count, Counts, Spread, Spreads

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
SCORES = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0)


class StageMetrics:
    """Of one stage."""

    def __init__(self, metrics: "Metrics", stage: str) -> None:
        self._metrics = metrics
        self._stage = stage
        self.requests = metrics.stage_requests.labels(stage)
        self.accepted = metrics.accepted.labels(stage)
        self.score = metrics.score.labels(stage)
        self.seconds = metrics.stage_seconds.labels(stage)
        self.ttft = metrics.ttft.labels(stage)
        self.input_tokens = metrics.tokens.labels(stage, "input")
        self.output_tokens = metrics.tokens.labels(stage, "output")

    def escalated(self, reason: str) -> None:
        self._metrics.escalated.labels(self._stage, reason).inc()

    def upstream_error(self, kind: str) -> None:
        self._metrics.upstream_errors.labels(self._stage, kind).inc()

    def hedged(self, what: str) -> None:
        self._metrics.hedges.labels(self._stage, what).inc()

    def judge_failed(self, kind: str) -> None:
        self._metrics.judge_failures.labels(self._stage, kind).inc()


@dataclass(slots=True)
class Metrics:
    """A registry of its own, so that two routers in one process do not share figures."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    running: int = 0
    requests: Counts = field(init=False)
    request_seconds: Spreads = field(init=False)
    stage_requests: Counts = field(init=False)
    accepted: Counts = field(init=False)
    escalated: Counts = field(init=False)
    score: Spreads = field(init=False)
    stage_seconds: Spreads = field(init=False)
    ttft: Spreads = field(init=False)
    tokens: Counts = field(init=False)
    upstream_errors: Counts = field(init=False)
    hedges: Counts = field(init=False)
    judge_seconds: Spread = field(init=False)
    judge_failures: Counts = field(init=False)
    log_failures: Count = field(init=False)
    _done: dict[tuple[str, int], tuple[Count, Spread]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        in_flight = Gauge("cascadia_in_flight", "Requests under way.", registry=self.registry)
        in_flight.set_function(lambda: self.running)
        self.requests = self._counts("requests", "Requests by model asked for and status.", "model", "status")
        self.request_seconds = self._spreads("request_seconds", "End to end.", SECONDS, "model")
        self.stage_requests = self._counts("stage_requests", "Requests that reached a stage.", "stage")
        self.accepted = self._counts("stage_accepted", "Answers of a stage that a client got.", "stage")
        self.escalated = self._counts("stage_escalated", "Requests that went on.", "stage", "reason")
        self.score = self._spreads("stage_score", "Verdicts on a stage's answers, 0-100.", SCORES, "stage")
        self.stage_seconds = self._spreads("stage_seconds", "Queue and answer.", SECONDS, "stage")
        self.ttft = self._spreads("stage_ttft_seconds", "To a live stream's first part.", SECONDS, "stage")
        self.tokens = self._counts("stage_tokens", "As engines count them.", "stage", "direction")
        self.upstream_errors = self._counts("upstream_errors", "Exchanges that failed.", "stage", "kind")
        self.hedges = self._counts("hedges", "Second requests: sent, and won.", "stage", "what")
        self.judge_seconds = self._spreads("judge_seconds", "Time of a verdict.", SECONDS).labels()
        self.judge_failures = self._counts("judge_failures", "Answers without verdict.", "stage", "kind")
        self.log_failures = self._counts("log_failures", "Log lines that could not be written.").labels()

    def stage(self, name: str) -> StageMetrics:
        return StageMetrics(self, name)

    def done(self, model: str, status: int, seconds: float) -> None:
        """`model` is one that is served, or `other`: what clients write must not become labels without bound."""
        found = self._done.get((model, status))
        if found is None:
            found = self.requests.labels(model, str(status)), self.request_seconds.labels(model)
            self._done[model, status] = found
        found[0].inc()
        found[1].observe(seconds)

    def _counts(self, name: str, text: str, *labels: str) -> Counts:
        counts = Counts(f"cascadia_{name}", text, labels)
        self.registry.register(counts)
        return counts

    def _spreads(self, name: str, text: str, upper: tuple[float, ...], *labels: str) -> Spreads:
        spreads = Spreads(f"cascadia_{name}", text, labels, upper)
        self.registry.register(spreads)
        return spreads

"""Metrics for Prometheus. Names and labels are documented in docs/reference/router.md, which a test compares
with this.

Children are kept by who counts, so that a count is an addition. What is a state rather than an event (queues, replicas,
thresholds) is not counted at all: `live/metrics_state.py` reads it when it is asked for.
"""

import platform
from dataclasses import dataclass, field
from typing import Protocol

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector

from cascadia import __version__
from cascadia.router.telemetry.counters import Count, Counts, Spread, Spreads

REQUEST_SECONDS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0),
)  # fmt: skip
TTFT_SECONDS = (
    *(0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75),
    *(1.0, 1.5, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0),
)  # fmt: skip
"""Closest where prefills of ordinary prompts lie."""
TPOT_SECONDS = (
    *(0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08),
    *(0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5),
)  # fmt: skip
"""From a small model on a fast GPU to a laptop without one."""
BATCH_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
QUEUE_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0)
SCORES = tuple(float(score) for score in range(0, 101, 5))
"""As fine as a threshold is set by hand. The first bucket holds what was refused without a judge."""


STOPPED = ("failed", "overloaded", "deadline")
SHADOWS = ("done", "busy", "budget", "unfit", "crowded", "failed")


class Left(Protocol):
    """Exits of an engine's pass (`openai.one_pass.Exits`), or of one thinking request."""

    @property
    def left(self) -> list[int]: ...

    @property
    def setting(self) -> int: ...

    @property
    def settings(self) -> int: ...

    @property
    def withdrawn(self) -> int: ...


class StageMetrics:
    """Metrics of one stage."""

    def __init__(self, metrics: "Metrics", stage: str) -> None:
        self._metrics = metrics
        self._stage = stage
        self.requests = metrics.stage_requests.labels(stage)
        self.accepted = metrics.accepted.labels(stage)
        self.score = metrics.score.labels(stage)
        self.seconds = metrics.stage_seconds.labels(stage)
        self.queue = metrics.queue_seconds.labels(stage)
        self.batch = metrics.batch_size.labels(stage)
        self.ttft = metrics.ttft.labels(stage)
        self.tpot = metrics.tpot.labels(stage)
        self.input_tokens = metrics.tokens.labels(stage, "input")
        self.output_tokens = metrics.tokens.labels(stage, "output")
        self.cascade_tokens = metrics.cascade_tokens.labels(stage)
        self.cascade_usd = metrics.cascade_usd.labels(stage)

    def escalated(self, reason: str) -> None:
        self._metrics.escalated.labels(self._stage, reason).inc()

    def upstream_error(self, kind: str) -> None:
        self._metrics.upstream_errors.labels(self._stage, kind).inc()

    def thought_on(self, lost: bool) -> None:
        """Counts a request that thought to the end as evidence."""
        self._metrics.exit_evidence.labels(self._stage, "yes" if lost else "no").inc()

    def left(self, exits: "Left | None") -> None:
        """Counts where inputs left a pass; None: the engine has no exits."""
        if exits is None:
            return
        for at, count in enumerate(exits.left, start=1):
            if count:
                # As the engine counts: its first ramp is 1, and 0 is none.
                ramp = at if at < len(exits.left) else 0
                self._metrics.exits.labels(self._stage, str(ramp)).inc(count)
        self._metrics.exit_settings[self._stage] = (exits.setting, exits.settings, exits.withdrawn)

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
    request_ttft: Spreads = field(init=False)
    stage_requests: Counts = field(init=False)
    accepted: Counts = field(init=False)
    escalated: Counts = field(init=False)
    exits: Counts = field(init=False)
    exit_evidence: Counts = field(init=False)
    exit_settings: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """By stage: the setting in force, of how many, and how often settings were withdrawn, as its engine said last."""
    stopped: Counts = field(init=False)
    score: Spreads = field(init=False)
    stage_seconds: Spreads = field(init=False)
    queue_seconds: Spreads = field(init=False)
    batch_size: Spreads = field(init=False)
    ttft: Spreads = field(init=False)
    tpot: Spreads = field(init=False)
    tokens: Counts = field(init=False)
    cascade_tokens: Counts = field(init=False)
    cascade_usd: Counts = field(init=False)
    alone: Counts = field(init=False)
    alone_usd: Count = field(init=False)
    answers: Counts = field(init=False)
    answer_tokens: Count = field(init=False)
    upstream_errors: Counts = field(init=False)
    hedges: Counts = field(init=False)
    judgements: Spreads = field(init=False)
    judge_seconds: Spread = field(init=False)
    judge_failures: Counts = field(init=False)
    unexamined: Counts = field(init=False)
    log_failures: Count = field(init=False)
    samples: Counts = field(init=False)
    samples_lost: Counts = field(init=False)
    shadows: Counts = field(init=False)
    shadow_tokens: Count = field(init=False)
    spans_lost: Count = field(init=False)
    gear_requests: Counts = field(init=False)
    gear_switches: Count = field(init=False)
    _done: dict[tuple[str, int], tuple[Count, Spread, Spread]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        in_flight = Gauge("cascadia_in_flight", "Requests under way.", registry=self.registry)
        in_flight.set_function(lambda: self.running)
        info = Gauge("cascadia_build_info", "What runs here.", ("version", "python"), registry=self.registry)
        info.labels(__version__, platform.python_version()).set(1)
        ProcessCollector(registry=self.registry)

        counts, spreads = self._counts, self._spreads
        self.requests = counts("requests", "Requests by model asked for and status.", "model", "status")
        self.request_seconds = spreads("request_seconds", "End to end.", REQUEST_SECONDS, "model")
        self.request_ttft = spreads(
            "request_ttft_seconds", "To the first byte of an answer.", TTFT_SECONDS, "model"
        )
        self.stage_requests = counts("stage_requests", "Requests that reached a stage.", "stage")
        self.accepted = counts("stage_accepted", "Answers of a stage that a client got.", "stage")
        self.escalated = counts("stage_escalated", "Requests that went on.", "stage", "reason")
        self.exits = counts("stage_exits", "Inputs by the exit they left at, 0: none.", "stage", "at")
        self.exit_evidence = counts(
            "stage_exit_evidence", "Requests that thought to the end, as evidence.", "stage", "lost"
        )
        self.stopped = counts("stopped", "Answers given because a better one could not be had.", "reason")
        self.score = spreads("stage_score", "Verdicts on a stage's answers, 0-100.", SCORES, "stage")
        self.stage_seconds = spreads("stage_seconds", "Queue and answer.", REQUEST_SECONDS, "stage")
        self.queue_seconds = spreads("stage_queue_seconds", "Wait for a replica.", QUEUE_SECONDS, "stage")
        self.batch_size = spreads("stage_batch_size", "Requests of a batch.", BATCH_SIZES, "stage")
        self.ttft = spreads("stage_ttft_seconds", "To a stream's first part.", TTFT_SECONDS, "stage")
        self.tpot = spreads("stage_tpot_seconds", "A stream's time per further token.", TPOT_SECONDS, "stage")
        self.tokens = counts("stage_tokens", "As engines count them.", "stage", "direction")
        self.cascade_tokens = counts("cascade_tokens", "Read and written for the cascade.", "stage")
        self.cascade_usd = counts("cascade_usd", "Dollars of its tokens for the cascade.", "stage")
        self.alone = counts("alone_usd", "What its answers would have cost of the last stage.")
        self.alone_usd = self.alone.labels()
        self.answers = counts("answer_tokens", "Of the answers that the cascade gave.")
        self.answer_tokens = self.answers.labels()
        self.upstream_errors = counts("upstream_errors", "Exchanges that failed.", "stage", "kind")
        self.hedges = counts("hedges", "Second requests: sent, and won.", "stage", "what")
        self.judgements = spreads("judge_seconds", "Time of a verdict.", TTFT_SECONDS)
        self.judge_seconds = self.judgements.labels()
        self.judge_failures = counts("judge_failures", "Answers without verdict.", "stage", "kind")
        self.unexamined = counts(
            "unexamined", "Schemas, verifiers and answers not looked at within their budget.", "what", "why"
        )
        self.log_failures = counts("log_failures", "Log lines that could not be written.").labels()
        self.samples = counts("samples", "Rows of the workload log.", "kind")
        self.samples_lost = counts("samples_lost", "Rows of it that could not be written.", "reason")
        self.shadows = counts("shadows", "Requests drawn for a shadow evaluation.", "outcome")
        self.shadow_tokens = counts("shadow_tokens", "Read and written for them.").labels()
        self.spans_lost = counts("spans_lost", "Spans that found no room or no collector.").labels()
        self.gear_requests = counts("gear_requests", "Requests to the cascade by their gear.", "gear")
        self.gear_switches = counts("gear_switches", "Changes of the gear in force.").labels()

        # A rate sees an increase only from a number that was there before: these are there from the start.
        for family, kinds in (
            (self.stopped, STOPPED),
            (self.samples, ("requests", "quality")),
            (self.samples_lost, ("queue", "disk")),
            (self.shadows, SHADOWS),
        ):
            for kind in kinds:
                family.labels(kind)

    def not_examined(self, what: str, why: str) -> None:
        self.unexamined.labels(what, why).inc()

    def stage(self, name: str) -> StageMetrics:
        return StageMetrics(self, name)

    def done(self, model: str, status: int, seconds: float, ttft_s: float | None = None) -> None:
        """`model` is one that is served, or `other`: what clients write must not become labels without bound.

        `ttft_s` None: nothing was answered, or an error.
        """
        found = self._done.get((model, status))
        if found is None:
            found = (
                self.requests.labels(model, str(status)),
                self.request_seconds.labels(model),
                self.request_ttft.labels(model),
            )
            self._done[model, status] = found
        requests, spread, ttft = found
        requests.value += 1.0
        spread.observe(seconds)
        if ttft_s is not None:
            ttft.observe(ttft_s)

    def _counts(self, name: str, text: str, *labels: str) -> Counts:
        counts = Counts(f"cascadia_{name}", text, labels)
        self.registry.register(counts)
        return counts

    def _spreads(self, name: str, text: str, upper: tuple[float, ...], *labels: str) -> Spreads:
        spreads = Spreads(f"cascadia_{name}", text, labels, upper)
        self.registry.register(spreads)
        return spreads

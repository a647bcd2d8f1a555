"""Metrics of keys for Prometheus. `key` is a key's name in the file of keys: as many as there are keys."""

from cascadia.router.telemetry.counters import Counts
from cascadia.router.telemetry.metrics import Metrics


class KeyMetrics:
    """`requests` and `tokens` by key, `usd` by stage too; `refused` by reason."""

    def __init__(self, metrics: Metrics) -> None:
        self.requests = Counts("cascadia_key_requests", "Requests that a key was let in with.", ("key",))
        self.tokens = Counts("cascadia_key_tokens", "Tokens used, of all stages asked.", ("key",))
        self.usd = Counts("cascadia_key_usd", "Dollars of its engines' tokens.", ("key", "stage"))
        self._refused = Counts(
            "cascadia_key_refused", "Requests refused for their key or its limits.", ("key", "reason")
        )
        for counts in (self.requests, self.tokens, self.usd, self._refused):
            metrics.registry.register(counts)
        self._failures = Counts(
            "cascadia_spend_failures", "Times that the book of keys' spend could not be had.", ("kind",)
        )
        metrics.registry.register(self._failures)

    def spend_failed(self, kind: str) -> None:
        self._failures.labels(kind).inc()

    def refused(self, key: str, reason: str) -> None:
        """`key` is empty where none was known."""
        self._refused.labels(key, reason).inc()

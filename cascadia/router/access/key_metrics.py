"""Metrics of keys for Prometheus. `key` is a key's name in the file of keys: as many as there are keys."""

from cascadia.router.telemetry.counters import Counts
from cascadia.router.telemetry.metrics import Metrics


class KeyMetrics:
    """`requests` and `tokens` by key; `refused` by reason, too."""

    def __init__(self, metrics: Metrics) -> None:
        self.requests = Counts("cascadia_key_requests", "Requests that a key was let in with.", ("key",))
        self.tokens = Counts("cascadia_key_tokens", "Tokens used, of all stages asked.", ("key",))
        self._refused = Counts(
            "cascadia_key_refused", "Requests refused for their key or its limits.", ("key", "reason")
        )
        for counts in (self.requests, self.tokens, self._refused):
            metrics.registry.register(counts)

    def refused(self, key: str, reason: str) -> None:
        """`key` is empty where none was known."""
        self._refused.labels(key, reason).inc()

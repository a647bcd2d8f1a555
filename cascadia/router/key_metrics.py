"""What Prometheus sees of keys. `key` is a key's name in the file of keys: as many as there are keys."""

from cascadia.router.metrics import Metrics
from cascadia.router.tally import Count, Counts


class KeyMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self._requests = Counts("cascadia_key_requests", "Requests that a key was let in with.", ("key",))
        self._refused = Counts(
            "cascadia_key_refused", "Requests refused for their key or its limits.", ("key", "reason")
        )
        self._tokens = Counts("cascadia_key_tokens", "Tokens used, of all stages asked.", ("key",))
        for counts in (self._requests, self._refused, self._tokens):
            metrics.registry.register(counts)
        self._admitted: dict[str, Count] = {}
        self._used: dict[str, Count] = {}

    def admitted(self, key: str) -> None:
        count = self._admitted.get(key)
        if count is None:
            count = self._admitted[key] = self._requests.labels(key)
        count.inc()

    def used(self, key: str, tokens: int) -> None:
        count = self._used.get(key)
        if count is None:
            count = self._used[key] = self._tokens.labels(key)
        count.inc(tokens)

    def refused(self, key: str, reason: str) -> None:
        """`key` is empty where none was known."""
        self._refused.labels(key, reason).inc()

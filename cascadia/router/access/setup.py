"""Access as the settings ask for it."""

from cascadia.domain.errors import BadInput
from cascadia.files.extras import install
from cascadia.router.access.access import Access
from cascadia.router.access.key_metrics import KeyMetrics
from cascadia.router.access.keys import Keyring
from cascadia.router.settings.model import KeySettings
from cascadia.router.telemetry.counters import Counts
from cascadia.router.telemetry.metrics import Metrics


def access_of(settings: KeySettings | None, keyring: Keyring | None, metrics: Metrics) -> Access | None:
    """Access by keys; None where no key is asked for."""
    if settings is None:
        return None
    return Access(
        keyring if keyring is not None else Keyring(()),
        KeyMetrics(metrics),
        refuse_alone=settings.on_redis_failure == "refuse",
        open_paths=settings.open,
    )


def keep_up(access: Access | None, settings: KeySettings | None, metrics: Metrics) -> None:
    """Begins to share limits where the settings say so. Within a running loop. Raises `BadInput` without the client."""
    if access is None or settings is None or settings.redis_url is None:
        return
    try:
        from cascadia.router.access.redis_store import RedisStore
    except ModuleNotFoundError:
        raise BadInput("keys.redis_url", "needs the package redis", install("redis")) from None
    from cascadia.router.access.shared_limits import SharedLimits

    failures = Counts(
        "cascadia_shared_limit_failures", "Requests whose limits were not looked up in Redis.", ("kind",)
    )
    metrics.registry.register(failures)
    access.shared = SharedLimits(
        RedisStore(settings.redis_url, settings.redis_timeout_s), lambda kind: failures.labels(kind).inc()
    )

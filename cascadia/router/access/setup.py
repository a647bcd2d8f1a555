"""Access as the settings ask for it."""

from cascadia.domain.errors import BadInput
from cascadia.files.extras import install
from cascadia.router.access.access import Access
from cascadia.router.access.key_metrics import KeyMetrics
from cascadia.router.access.keys import Keyring
from cascadia.router.access.spend_books import FileBook, RedisBook
from cascadia.router.settings.model import KeySettings, RouterSettings
from cascadia.router.telemetry.counters import Counts
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.telemetry.outages import Outage
from cascadia.router.telemetry.request_log import Journal


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


def check_budgets(settings: RouterSettings, keyring: Keyring | None) -> None:
    """Raises `BadInput` for a key whose budget nothing would be charged to."""
    budgets = [key.name for key in keyring or () if key.limits.usd_per_month is not None]
    unpriced = [stage.name for stage in settings.stages if stage.price is None]
    if budgets and unpriced:
        what = f"the key {budgets[0]!r} has a budget, and a token of {', '.join(unpriced)} no price"
        prices = "usd_per_million_input_tokens and usd_per_million_output_tokens"
        instead = (
            f"write {prices} of the stage into router.yaml, or usd_per_gpu_hour into the spec, and plan anew"
        )
        raise BadInput("keys", what, instead)


async def keep_up(
    access: Access | None, settings: KeySettings | None, metrics: Metrics, events: Journal
) -> None:
    """Begins to share limits and spend where the settings say so. Within a running loop. Raises `BadInput` without the
    client of Redis."""
    if access is None or settings is None:
        return
    if settings.redis_url is None:
        told = settings.spend is not None
        await access.spending.start(FileBook(settings.spend_folder), lambda: told or access.has_budgets)
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
        RedisStore(settings.redis_url, settings.redis_timeout_s),
        lambda kind: failures.labels(kind).inc(),
        Outage("limits", events.line),
        access.running,
    )
    # Nobody waits for what was spent: it may take as long as a busy Redis does.
    store = RedisStore(settings.redis_url, max(1.0, settings.redis_timeout_s))
    await access.spending.start(RedisBook(store, Outage("spend", events.line)))

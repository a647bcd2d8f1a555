"""A request to the cascade with its own limits, from the body or from headers."""

from msgspec import UNSET, Struct, UnsetType

from cascadia.clients.engines.held_bytes import HeldBytes, Holding
from cascadia.domain.objective import bar_meant
from cascadia.router.cascade.decision import Ask
from cascadia.router.cascade.records import Record
from cascadia.router.cascade.sessions import Session, session_of
from cascadia.router.http.exchange import Exchange
from cascadia.router.openai.errors import ApiError
from cascadia.router.openai.requests import OTHER_NAMES, Fields
from cascadia.router.openai.responses import refers_elsewhere
from cascadia.router.openai.texts import prompt_tokens_of
from cascadia.router.settings.model import GearSettings, RouterSettings

MOST_PRIORITY = 2**53
"""Beyond, a header's number is not what was written."""
DEPRECATED = b"x-cascadia-deprecated: quality_min;use=score_min\r\n"


class Urgency(Struct, frozen=True, gc=False):
    """`deadline_s` in the event loop's time."""

    deadline_s: float
    priority: int


def urgency_of(exchange: Exchange, fields: Fields, total_s: float) -> Urgency:
    """Deadline and priority of a request to the cascade or straight to a stage. Raises `ApiError`."""
    least = 0 if exchange.reservation is None else exchange.reservation.priority
    if fields.deadline_ms is UNSET and not fields.priority and not exchange.head.given:
        return Urgency(exchange.started_s + total_s, least if least > 0 else 0)
    deadline_ms = _limit(exchange, b"deadline-ms", fields.deadline_ms)
    if deadline_ms is not None:
        if not 0 < deadline_ms < float("inf"):
            raise ApiError(400, "invalid_value", "deadline_ms must be above 0.", param="deadline_ms")
        total_s = min(total_s, deadline_ms / 1000.0)
    priority = _limit(exchange, b"priority", fields.priority)
    if priority is not None and not (abs(priority) <= MOST_PRIORITY and priority == int(priority)):
        raise ApiError(400, "invalid_value", "priority must be a whole number.", param="priority")
    wanted = int(priority or 0)
    if exchange.reservation is not None:
        # Nobody is more urgent than the key allows.
        wanted = max(wanted, least)
    return Urgency(exchange.started_s + total_s, wanted)


def ask_of(
    exchange: Exchange,
    fields: Fields,
    settings: RouterSettings,
    held: HeldBytes,
    *,
    prefix: int | None,
    record: Record,
    gear: GearSettings | None = None,
) -> Ask:
    """Raises `ApiError` where a limit of the request makes no sense."""
    urgency = urgency_of(exchange, fields, settings.limits.total_s)
    score_min = _score_min(exchange, fields)
    first, last = _bounds(
        settings,
        _name(exchange, b"min-stage", fields.min_stage),
        _name(exchange, b"max-stage", fields.max_stage),
    )
    if exchange.head.api == "responses" and (why := refers_elsewhere(fields)):
        message = f"{why} is kept by one engine: name its stage, one of {', '.join(settings.names)}."
        raise ApiError(400, "not_cascaded", message, param=why)
    session: Session | None = None
    if settings.conversations.start == "sticky":
        caller = record.entry.get("key", "")
        session = session_of(fields, exchange.head.given.get(b"session-id"), caller)
    return Ask(
        api=exchange.head.api,
        path=OTHER_NAMES.get(exchange.head.path, exchange.head.path),
        body=exchange.body,
        fields=fields,
        headers=exchange.forwarded,
        tokens=prompt_tokens_of(exchange.body),
        prefix=prefix,
        deadline_s=urgency.deadline_s,
        first=first,
        last=last,
        holding=Holding(held),
        score_min=score_min,
        explain=settings.playground and exchange.head.given.get(b"explain") == b"1",
        steps=record.steps,
        trace=record.trace,
        exits=_exits(exchange, fields),
        priority=urgency.priority,
        gear=gear,
        session=session,
    )


def _score_min(exchange: Exchange, fields: Fields) -> float:
    """Least score that every threshold is raised to, 0-100; 0 where none is given. Raises `ApiError`.

    Its former name `quality_min` still works, and the answer says so.
    """
    param, least = "score_min", _limit(exchange, b"score-min", fields.score_min)
    former = _limit(exchange, b"quality-min", fields.quality_min)
    if former is not None:
        if least is not None:
            message = "score_min and quality_min are two names of one limit. Give score_min alone."
            raise ApiError(400, "invalid_value", message, param="quality_min")
        param, least = "quality_min", former
        exchange.more += DEPRECATED
    if least is None:
        return 0.0
    if not 0 <= least <= 100:
        raise ApiError(400, "invalid_value", f"{param} must be 0 to 100.", param=param)
    if (meant := bar_meant(least)) is not None:
        message = f"{param} {least:g} is of 100. Did you mean {meant:g}?"
        raise ApiError(400, "invalid_value", message, param=param)
    return least


def _exits(exchange: Exchange, fields: Fields) -> bool:
    """Tells whether stages may answer early; the header `x-cascadia-exits: off` declines. Raises `ApiError`."""
    told = exchange.head.given.get(b"exits")
    if told is not None and told not in (b"on", b"off"):
        raise ApiError(400, "invalid_value", "The header x-cascadia-exits is on or off.", param="exits")
    return told != b"off" and fields.exits is not False


def _bounds(settings: RouterSettings, min_stage: str | None, max_stage: str | None) -> tuple[int, int]:
    """Indices of the smallest and the largest stage that may be asked, among those that are deployed."""
    order = [stage.name for stage in settings.stages]
    names = settings.names or tuple(order)
    for param, name in (("min_stage", min_stage), ("max_stage", max_stage)):
        if name is not None and name not in names:
            message = f"{param} names no stage; there are {', '.join(names)}."
            raise ApiError(400, "unknown_stage", message, param=param)
    smallest = names.index(min_stage) if min_stage is not None else 0
    largest = names.index(max_stage) if max_stage is not None else len(names) - 1
    within = [i for i, name in enumerate(order) if smallest <= names.index(name) <= largest]
    if not within:
        message = "No deployed stage lies between min_stage and max_stage."
        raise ApiError(400, "invalid_value", message, param="max_stage")
    return within[0], within[-1]


def _limit(exchange: Exchange, header: bytes, field: float | UnsetType | None) -> float | None:
    value = exchange.head.given.get(header)
    if value is None:
        return None if field is UNSET else field
    try:
        return float(value)
    except ValueError:
        name = header.decode()
        raise ApiError(
            400, "invalid_value", f"The header x-cascadia-{name} is no number.", param=name
        ) from None


def _name(exchange: Exchange, header: bytes, field: str | UnsetType | None) -> str | None:
    value = exchange.head.given.get(header)
    if value is None:
        return None if field is UNSET else field
    return value.decode("ascii", "replace")

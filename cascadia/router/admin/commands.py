"""Commands of an operator, who looks at and changes a running router.

What is put here holds until the files change, are read again, or the process ends: the files say what should be.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import orjson

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Plan
from cascadia.router.openai.bounded import values_in
from cascadia.router.settings.model import RouterSettings

MOST_THRESHOLD_BYTES = 64 * 1024
PIN = 'send {"gear": 1}, or {"gear": null} to have the load decide'


class Loaded(Protocol):
    """Files of a router. `loaded`: the settings as they have them."""

    @property
    def loaded(self) -> RouterSettings: ...


class Pinnable(Protocol):
    """Gears, of which one may be put in force whatever the load; None: the load decides."""

    def __len__(self) -> int: ...

    def pin(self, number: int | None) -> None: ...


class Geared(Protocol):
    """`gears` None: one setting serves any load."""

    @property
    def gears(self) -> Pinnable | None: ...


class Commanded(Geared, Protocol):
    """A router whose settings may change; `reloader` None: it was not started from files."""

    @property
    def settings(self) -> RouterSettings: ...

    @property
    def reloader(self) -> Loaded | None: ...

    def swap(self, settings: RouterSettings) -> None: ...


class Refused(Exception):
    """Refusal of what makes sense, but not now. `status` and `code` are of the answer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def put_thresholds(router: Commanded, body: bytes) -> None:
    """`body`: `{"STAGE": SCORE}`. Raises `BadInput`."""
    if len(body) > MOST_THRESHOLD_BYTES:
        raise BadInput("thresholds", f"is longer than {MOST_THRESHOLD_BYTES:,} bytes", "name stages only")
    wanted = _object(body, "thresholds")
    known = [stage.name for stage in router.settings.stages]
    for name, value in wanted.items():
        if name not in known:
            raise BadInput(f"thresholds.{name[:100]}", "no such stage", f"there are {', '.join(known)}")
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1000:
            raise BadInput(
                f"thresholds.{name}", "must be a number, 0 to 1000", "0 accepts all, above 100 none"
            )
    stages = tuple(
        replace(stage, threshold=float(wanted.get(stage.name, stage.threshold)))
        for stage in router.settings.stages
    )
    _swap(router, replace(router.settings, stages=stages))


def put_gear(router: Geared, body: bytes) -> None:
    """Pins a gear, or releases it. `body`: `{"gear": NUMBER}`, or null. Raises `BadInput`."""
    if router.gears is None:
        raise BadInput("gear", "there are no gears", "add them to router.yaml, or put a plan that has some")
    if len(body) > MOST_THRESHOLD_BYTES:
        raise BadInput("gear", f"is longer than {MOST_THRESHOLD_BYTES:,} bytes", PIN)
    wanted = _object(body, "gear", PIN)
    number = wanted.get("gear")
    last = len(router.gears) - 1
    if set(wanted) != {"gear"}:
        raise BadInput("gear", "is not named alone", PIN)
    if number is not None and (type(number) is not int or not 0 <= number <= last):
        raise BadInput("gear", f"must be a number from 0 to {last}, or null", PIN)
    router.gears.pin(number)


async def put_plan(router: Commanded, body: bytes) -> None:
    """`body`: a plan.json of stages that the files have addresses for. Raises `BadInput`."""
    from cascadia.files.plan_file import parse_plan
    from cascadia.router.admin.long_plan import FEW_VALUES, check
    from cascadia.router.settings.from_plan import under_plan

    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput("plan", "is not UTF-8", "send a plan.json") from None

    def parsed() -> Plan:
        try:
            if values_in(body) > FEW_VALUES:
                check(text)
            return parse_plan(text, "plan")
        except BadInput as error:
            # What was read of it hangs on the error's frames, and is to be freed here, not by the event loop.
            error.__context__ = None
            raise error.with_traceback(None) from None

    plan = await asyncio.to_thread(parsed)
    files = router.reloader.loaded if router.reloader is not None else router.settings
    _swap(router, under_plan(files, plan))


def _swap(router: Commanded, settings: RouterSettings) -> None:
    from cascadia.router.settings.file import check_settings

    check_settings(settings, "the router")
    router.swap(settings)


def _object(body: bytes, where: str, instead: str = 'send e.g. {"small": 70}') -> Mapping[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise BadInput(where, "is not JSON", instead) from None
    if not isinstance(document, dict):
        raise BadInput(where, "is no object", instead)
    return document

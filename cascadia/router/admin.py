"""What an operator may look at and change in a running router.

What is put here holds until the files change, are read again, or the process ends: the files say what should be.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import orjson

from cascadia.domain.errors import BadInput
from cascadia.router.replica import Replica
from cascadia.router.settings import RouterSettings
from cascadia.router.stage import Stage

if TYPE_CHECKING:
    from cascadia.router.app import Router

LONGEST_WAIT_S = 600.0
_LOOK_S = 0.02


class Refused(Exception):
    """What was asked for makes sense, but not now. `status` and `code` are of the answer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def state(router: "Router") -> dict[str, Any]:
    """Of everything that a plan decides. Addresses are shown, secrets are not."""
    settings = router.settings
    reloader = router.reloader
    return {
        "plan": router.digest,
        "ready": router.ready,
        "draining": router.draining,
        "running": router.metrics.running,
        "thresholds": {stage.name: stage.settings.threshold for stage in router.stages},
        "judge": None if settings.judge is None else settings.judge.kind,
        "stages": {stage.name: _stage(stage) for stage in router.lineup.all_stages},
        "leaving": [{"name": r.name, "running": r.running} for r in router.departing],
        "keys": None if router.access is None else len(router.access.keyring),
        "reload": None if reloader is None or reloader.last is None else reloader.last._asdict(),
    }


def put_thresholds(router: "Router", body: bytes) -> None:
    """`body`: `{"STAGE": SCORE}`. Raises `BadInput`."""
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


async def put_plan(router: "Router", body: bytes) -> None:
    """`body`: a plan.json of stages that the files have addresses for. Raises `BadInput`."""
    from cascadia.planner.plan_file import parse_plan
    from cascadia.router.plan_settings import under_plan

    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput("plan", "is not UTF-8", "send a plan.json") from None
    plan = await asyncio.to_thread(parse_plan, text, "plan")
    files = router.reloader.loaded if router.reloader is not None else router.settings
    _swap(router, under_plan(files, plan))


async def drain(router: "Router", name: str, *, wait_s: float, force: bool) -> dict[str, Any]:
    """Returns when nothing runs there any more, or after `wait_s`. Raises `Refused`."""
    stage, replica = _found(router, name)
    others = [r for r in stage.replicas if r is not replica and r.state in ("ready", "starting")]
    if not others and not force and replica.state != "draining":
        message = f"{name!r} is the last replica of {stage.name!r} that takes requests; force=true does it."
        raise Refused(409, "last_replica", message)
    replica.drain()
    # Who waits for it may find another.
    stage.turns.wake()
    loop = asyncio.get_running_loop()
    until_s = loop.time() + (min(LONGEST_WAIT_S, max(0.0, wait_s)) if isfinite(wait_s) else LONGEST_WAIT_S)
    while replica.running and loop.time() < until_s:
        await asyncio.sleep(_LOOK_S)
    return _replica(replica)


def undrain(router: "Router", name: str) -> dict[str, Any]:
    stage, replica = _found(router, name)
    replica.undrain()
    stage.turns.wake()
    return _replica(replica)


def _found(router: "Router", name: str) -> tuple[Stage, Replica]:
    for stage, replica in router.lineup.replicas:
        if replica.name == name:
            return stage, replica
    known = ", ".join(replica.name for _, replica in router.lineup.replicas)
    raise Refused(404, "unknown_replica", f"There is no replica {name[:100]!r}; there are {known}.")


def _swap(router: "Router", settings: RouterSettings) -> None:
    from cascadia.router.settings_file import check_settings

    check_settings(settings, "the router")
    router.swap(settings)


def _object(body: bytes, where: str) -> Mapping[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise BadInput(where, "is not JSON", 'send e.g. {"small": 70}') from None
    if not isinstance(document, dict):
        raise BadInput(where, "is no object", 'send e.g. {"small": 70}')
    return document


def _stage(stage: Stage) -> dict[str, Any]:
    return {
        "model": stage.settings.model,
        "threshold": stage.settings.threshold,
        "max_model_len": stage.settings.max_model_len,
        "balancing": stage.settings.balancing,
        "waiting": len(stage.turns),
        "replicas": {replica.name: _replica(replica) for replica in stage.replicas},
    }


def _replica(replica: Replica) -> dict[str, Any]:
    return {
        "url": replica.identity[0],
        "address": replica.address,
        "state": replica.state,
        "breaker": "closed" if replica.breaker.closed else "open",
        "share": replica.weight,
        "max_concurrency": replica.max_concurrency,
        "running": replica.running,
    }

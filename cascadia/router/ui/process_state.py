"""State that the admin API shows of one process, and of all of them together."""

from collections.abc import Sequence
from typing import Any, Protocol

from cascadia.router.access.access import Access
from cascadia.router.replicas.draining import Departing
from cascadia.router.replicas.replica import Replica
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import RouterSettings
from cascadia.router.telemetry.metrics import Metrics

_WORSE = {state: rank for rank, state in enumerate(("ready", "starting", "draining", "down"))}


class Outcome(Protocol):
    """Outcome of reading the files again; a NamedTuple."""

    def _asdict(self) -> dict[str, Any]: ...


class Reloads(Protocol):
    """Files of a router. `last`: what came of reading them again; None: they were read at the start only."""

    @property
    def last(self) -> Outcome | None: ...


class Gears(Protocol):
    """`number` is of the gear in force, which the load has chosen unless one is `pinned`."""

    @property
    def number(self) -> int: ...

    @property
    def pinned(self) -> int | None: ...

    @property
    def capacity(self) -> float: ...


class Process(Protocol):
    """A router's process, with what its plan decides."""

    @property
    def settings(self) -> RouterSettings: ...

    @property
    def digest(self) -> str: ...

    @property
    def ready(self) -> bool: ...

    @property
    def draining(self) -> bool: ...

    @property
    def stages(self) -> list[Stage]: ...

    @property
    def all_stages(self) -> list[Stage]: ...

    @property
    def departing(self) -> Departing: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def access(self) -> Access | None: ...

    @property
    def gears(self) -> Gears | None: ...

    @property
    def reloader(self) -> Reloads | None: ...


def state(router: Process) -> dict[str, Any]:
    """State of everything that a plan decides. Addresses are shown, secrets are not."""
    settings = router.settings
    reloader, gears = router.reloader, router.gears
    return {
        "plan": router.digest,
        "ready": router.ready,
        "draining": router.draining,
        "running": router.metrics.running,
        "thresholds": {stage.name: stage.settings.threshold for stage in router.stages},
        "gear": None if gears is None else _gear(gears),
        "judge": None if settings.judge is None else settings.judge.kind,
        "stages": {stage.name: _stage(stage) for stage in router.all_stages},
        "leaving": [{"name": r.name, "running": r.running} for r in router.departing],
        "keys": None if router.access is None else len(router.access.keyring),
        "reload": None if reloader is None or reloader.last is None else reloader.last._asdict(),
    }


def together(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The first, with the work of all; `plans` are those in force, more than one while a change goes round."""
    first, *others = states
    for other in others:
        first["ready"] &= other["ready"]
        first["draining"] |= other["draining"]
        first["running"] += other["running"]
        first["leaving"] += other["leaving"]
        for name, stage in other["stages"].items():
            mine = first["stages"].get(name)
            if mine is not None:
                mine["waiting"] += stage["waiting"]
                for one, replica in stage["replicas"].items():
                    add_replica(mine["replicas"], one, replica, "max_concurrency")
    return first | {"processes": len(states), "plans": sorted({one["plan"] for one in states})}


def add_replica(replicas: dict[str, dict[str, Any]], name: str, seen: dict[str, Any], room: str) -> None:
    """Adds what another process sees of a replica: work and room add up, and the worse of two opinions is
    shown.
    """
    known = replicas.setdefault(name, seen)
    if known is seen:
        return
    known["running"] += seen["running"]
    known[room] += seen[room]
    known["state"] = max(known["state"], seen["state"], key=_WORSE.__getitem__)
    known["unhealthy"] = known["unhealthy"] or seen["unhealthy"]
    known["breaker"] = max(known["breaker"], seen["breaker"])  # closed, open


def replica_state(replica: Replica) -> dict[str, Any]:
    return {
        "url": replica.identity[0],
        "address": replica.address,
        "state": replica.state,
        "unhealthy": replica.ill,
        "breaker": "closed" if replica.breaker.closed else "open",
        "share": replica.weight,
        "max_concurrency": replica.max_concurrency,
        "running": replica.running,
    }


def _gear(gears: Gears) -> dict[str, Any]:
    return {"in_force": gears.number, "pinned": gears.pinned, "capacity": gears.capacity}


def _stage(stage: Stage) -> dict[str, Any]:
    return {
        "model": stage.settings.model,
        "threshold": stage.settings.threshold,
        "max_model_len": stage.settings.max_model_len,
        "balancing": stage.settings.balancing,
        "waiting": len(stage.wait_queue),
        "replicas": {replica.name: replica_state(replica) for replica in stage.replicas},
    }

"""State that the admin API shows of one process, and of all of them together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cascadia.router.replicas.replica import Replica
from cascadia.router.replicas.stage import Stage

if TYPE_CHECKING:
    from cascadia.router.server.app import Router

_WORSE = {state: rank for rank, state in enumerate(("ready", "starting", "draining", "down"))}


def state(router: "Router") -> dict[str, Any]:
    """State of everything that a plan decides. Addresses are shown, secrets are not."""
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
    known["breaker"] = max(known["breaker"], seen["breaker"])  # closed, open


def replica_state(replica: Replica) -> dict[str, Any]:
    return {
        "url": replica.identity[0],
        "address": replica.address,
        "state": replica.state,
        "breaker": "closed" if replica.breaker.closed else "open",
        "share": replica.weight,
        "max_concurrency": replica.max_concurrency,
        "running": replica.running,
    }


def _stage(stage: Stage) -> dict[str, Any]:
    return {
        "model": stage.settings.model,
        "threshold": stage.settings.threshold,
        "max_model_len": stage.settings.max_model_len,
        "balancing": stage.settings.balancing,
        "waiting": len(stage.turns),
        "replicas": {replica.name: replica_state(replica) for replica in stage.replicas},
    }

"""What a step may do, said independently of how reconcile finds its steps; and all orders that there are."""

from collections import Counter
from collections.abc import Iterator

from cascadia.controller.move.state import Desired, Observed, reached
from cascadia.controller.move.steps import AwaitReady, Drain, Route, Start, Step, Stop, Undrain, apply

EPS = 1e-9


def capacity(observed: Observed, desired: Desired, stage: str) -> float:
    ready = [r.kind for r in observed.replicas if r.kind.stage == stage and r.state == "ready"]
    return sum(desired.capacity(kind) for kind in ready)


def faults(before: Observed, step: Step, desired: Desired, keeps: float) -> list[str]:
    """What is wrong with taking `step` now."""
    after = apply(before, step)
    found = []
    if isinstance(step, Start):
        pool = step.kind.pool
        room = before.gpus.get(pool, 0) + desired.surge.get(pool, 0)
        found += [f"{step} exceeds the GPUs"] * (after.used(pool) > room)
    routing = after.routing
    served = () if routing is None or before.routing is None else before.routing.stages
    need = desired.need_rps if before.routing == desired.routing else before.need_rps
    match step:
        case Start(name, _):
            if name in {r.name for r in before.replicas}:
                found.append(f"{step}: the name is taken")
        case AwaitReady(name):
            if before.replica(name).state != "starting":
                found.append(f"{step}: it does not start")
        case Undrain(name):
            if before.replica(name).state != "draining":
                found.append(f"{step}: it does not drain")
        case Drain(name):
            replica = before.replica(name)
            stage = replica.kind.stage
            if replica.state != "ready":
                found.append(f"{step}: it is not ready")
            if stage in served and after.ready(stage) == 0:
                found.append(f"{step} takes the last ready replica of {stage}")
            if capacity(after, desired, stage) < keeps * need.get(stage, 0.0) - EPS:
                found.append(f"{step} leaves too little of {stage}")
        case Stop(name):
            if before.replica(name).state == "ready":
                found.append(f"{step}: it has not been drained")
        case Route(new):
            for stage in new.stages:
                if after.ready(stage) == 0:
                    found.append(f"{step}: {stage} is not ready")
                if capacity(after, desired, stage) < keeps * desired.need_rps.get(stage, 0.0) - EPS:
                    found.append(f"{step}: {stage} is too small")
    return found


def some_order_keeps(start: Observed, desired: Desired, keeps: float) -> bool:
    """By trying everything: whether what is wanted can come and the rest go while `keeps` holds."""
    seen: set[object] = set()
    stack = [start]
    while stack:
        now = stack.pop()
        key = (Counter((r.kind, r.state) for r in now.replicas), now.routing == desired.routing)
        frozen = (frozenset(key[0].items()), key[1])
        if frozen in seen:
            continue
        seen.add(frozen)
        if reached(now, desired):
            return True
        steps = [step for step in _every_step(now, desired) if not faults(now, step, desired, keeps)]
        stack.extend(apply(now, step) for step in steps)
    return False


def _every_step(now: Observed, desired: Desired) -> Iterator[Step]:
    alive = Counter(r.kind for r in now.replicas if r.state != "failed")
    for kind, wanted in desired.counts.items():
        if alive[kind] < wanted:
            free = next(f"new-{i}" for i in range(99) if f"new-{i}" not in {r.name for r in now.replicas})
            yield Start(free, kind)
    for replica in now.replicas:
        match replica.state:
            case "starting":
                yield AwaitReady(replica.name)
                yield Stop(replica.name)
            case "draining":
                yield Undrain(replica.name)
                yield Stop(replica.name)
            case "failed":
                yield Stop(replica.name)
            case "ready":
                if sum(
                    r.kind == replica.kind and r.state == "ready" for r in now.replicas
                ) > desired.counts.get(replica.kind, 0):
                    yield Drain(replica.name)
    if now.routing != desired.routing:
        yield Route(desired.routing)

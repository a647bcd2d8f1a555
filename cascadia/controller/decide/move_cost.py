"""Cost of a move: the time that its models need to start, one batch after another, and what loads meanwhile."""

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median

from cascadia.controller.decide.decide import MoveCost
from cascadia.controller.memory.history import Entry
from cascadia.controller.move.reconcile import Rollout
from cascadia.controller.move.state import Desired, Kind, Observed
from cascadia.controller.move.steps import AwaitReady, Start, Stop

STOP_S = 5.0
"""Of a replica that drains: most have little in hand by the time that they are asked to stop."""


def move_cost_of(rollout: Rollout, startup_s: Callable[[Kind], float]) -> MoveCost:
    """Replicas that start together take as long as the slowest of them."""
    duration_s = gpu_s = loading_s = 0.0
    starts = stops = 0
    for step in rollout.steps:
        match step:
            case Start(_, kind):
                starts += 1
                loading_s = max(loading_s, startup_s(kind))
                gpu_s += kind.gpus * startup_s(kind)
            case AwaitReady():
                duration_s += loading_s
                loading_s = 0.0
            case Stop():
                stops += 1
                duration_s += STOP_S
    return MoveCost(duration_s, gpu_s, rollout.keeps, starts, stops)


def back_s(observed: Observed, desired: Desired, startup_s: Callable[[Kind], float], at_once: int) -> float:
    """Seconds until what `desired` lets go would be ready again."""
    gone = observed.ready_kinds() - Counter(dict(desired.counts))
    batches = -(-gone.total() // at_once)
    return batches * max(map(startup_s, gone), default=0.0)


def measured_startups(entries: Sequence[Entry], otherwise_s: float) -> Callable[[Kind], float]:
    """Start-up seconds by kind: the median of what its starts took of late; of its stage where this kind never
    started.
    """
    by_spec: dict[str, list[float]] = {}
    by_stage: dict[str, list[float]] = {}
    for entry in entries:
        if entry.kind == "step" and "startup_s" in entry.facts:
            by_spec.setdefault(str(entry.facts.get("spec")), []).append(float(entry.facts["startup_s"]))
            by_stage.setdefault(str(entry.facts.get("stage")), []).append(float(entry.facts["startup_s"]))

    def startup_s(kind: Kind) -> float:
        known = by_spec.get(kind.spec) or by_stage.get(kind.stage)
        return median(known[-5:]) if known else otherwise_s

    return startup_s

"""Checks between the fields of a plan, beyond each field's own type."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from cascadia.domain.cluster import Cluster
from cascadia.domain.errors import BadInput
from cascadia.domain.gear import Gear
from cascadia.domain.names import JUDGE, name_fault, point_of
from cascadia.domain.plan import ASKS_NONE, ExitPlan, JudgePlan, Plan, ReplicaGroup, StagePlan

_ANEW = "plan anew, or undo the edit"
_SHARE_TOLERANCE = 1e-6


class Fault(NamedTuple):
    key: str
    what: str
    instead: str = _ANEW


def check_plan(plan: Plan, where: str) -> None:
    """Raises `BadInput` for the first fault."""
    for fault in _faults(plan):
        raise BadInput(f"{where}: {fault.key}", fault.what, fault.instead)


def _faults(plan: Plan) -> Iterator[Fault]:
    """Lazily: later checks may rely on earlier ones."""
    yield from _cluster_faults(plan.cluster)
    yield from _objective_faults(plan)
    names = [stage.name for stage in plan.stages]
    if not names:
        yield Fault("stages", "is empty")
    yield from _twice("stages", names)
    for index, stage in enumerate(plan.stages):
        of, at = point_of(stage.name)
        yield from _name_faults(f"stages[{index}].name", of)
        if at != stage.at:
            yield Fault(f"stages[{index}].at", f"is another exit than {stage.name!r} says")
        yield from _name_faults(f"stages[{index}].group", stage.group)
        yield from _replica_faults(f"stages[{index}]", stage.replicas, plan.cluster, stage.max_model_len)
        yield from _exit_faults(f"stages[{index}].exits", stage.exits)
        yield from _budget_faults(f"stages[{index}]", stage, plan)
    if not any(stage.deployed for stage in plan.stages):
        yield Fault("stages", "none has a replica")
    yield from _judge_faults(plan.judge, plan.cluster)
    yield from _capacity_faults(plan)
    yield from _threshold_faults("thresholds", plan.thresholds, len(names))
    yield from _skip_faults(plan)
    yield from _mixture_faults(plan)
    yield from _gear_faults(plan)
    yield from _under_load_faults(plan)
    yield from _scaling_faults(plan)
    for index, prediction in enumerate(plan.predicted.stages):
        if prediction.name not in names:
            yield Fault(f"predicted.stages[{index}].name", f"{prediction.name!r} is not a stage")
    for name in plan.calibrations:
        if name not in {*names, "judge"}:
            yield Fault(f"calibrations.{name}", "is not a stage")
    if plan.seed < 0:
        yield Fault("seed", "is negative")


def _name_faults(key: str, name: str | None) -> Iterator[Fault]:
    if name is not None and (fault := name_fault(name)) is not None:
        what, _, instead = fault.partition("; ")
        yield Fault(key, what, f"{instead}; plan anew")


def _cluster_faults(cluster: Cluster) -> Iterator[Fault]:
    yield from _twice("cluster.pools", [pool.name for pool in cluster.pools])
    for index, pool in enumerate(cluster.pools):
        if not (pool.name.strip() and pool.name.isprintable()):
            yield Fault(f"cluster.pools[{index}].name", f"{pool.name!r} is no name")
        if not (1 <= pool.nodes <= 10**6 and 1 <= pool.gpus_per_node <= 10**4):
            yield Fault(f"cluster.pools[{index}]", "nodes and gpus_per_node must be at least 1 and plausible")
        if pool.own_gpu is not None and pool.own_gpu.name != pool.gpu:
            yield Fault(
                f"cluster.pools[{index}].own_gpu.name", f"is {pool.own_gpu.name!r}, and gpu {pool.gpu!r}"
            )
        if pool.usd_per_gpu_hour < 0:
            yield Fault(f"cluster.pools[{index}].usd_per_gpu_hour", "is negative")


def _objective_faults(plan: Plan) -> Iterator[Fault]:
    objective = plan.objective
    if not 0 < objective.quantile < 1:
        yield Fault("objective.quantile", "must lie between 0 and 1")
    for index, level in enumerate(objective.levels):
        if not (0 < level.quantile < 1 and level.max_s > 0):
            yield Fault(f"objective.levels[{index}]", "needs a quantile between 0 and 1 and max_s above 0")
    if not 0 <= objective.within <= 1:
        yield Fault("objective.within", "must lie within 0-1")
    if objective.quality_min is not None and not 0 <= objective.quality_min <= 100:
        yield Fault("objective.quality_min", "must lie within 0-100")


def _replica_faults(
    key: str, replicas: tuple[ReplicaGroup, ...], cluster: Cluster, max_model_len: int
) -> Iterator[Fault]:
    if max_model_len < 1:
        yield Fault(f"{key}.max_model_len", "must be at least 1")
    pools = {pool.name for pool in cluster.pools}
    for index, group in enumerate(replicas):
        at = f"{key}.replicas[{index}]"
        if group.pool not in pools:
            yield Fault(f"{at}.pool", f"{group.pool!r} is not a pool of the cluster")
        if min(group.tp, group.pp, group.count) < 1:
            yield Fault(at, "tp, pp and count must be at least 1")
        if not 0 <= group.share <= 1:
            yield Fault(f"{at}.share", "must lie within 0-1")
    if replicas and not math.isclose(sum(group.share for group in replicas), 1, abs_tol=_SHARE_TOLERANCE):
        yield Fault(f"{key}.replicas", "their shares do not add up to 1")


def _exit_faults(key: str, exits: tuple[ExitPlan, ...]) -> Iterator[Fault]:
    tokens = [each.thinking_tokens for each in exits]
    if tokens != sorted(set(tokens)) or min(tokens, default=0) < 0:
        yield Fault(key, "are not in order", "list each once, by rising thinking_tokens")
    for index, each in enumerate(exits):
        if not (each.threshold >= 0 and 0 <= each.left <= 1):
            yield Fault(f"{key}[{index}]", "needs a threshold of at least 0, and left within 0-1")
        if each.foreseen is not None and not (0 < each.foreseen <= 100 and not each.last):
            yield Fault(f"{key}[{index}].foreseen", "needs 0-100, above 0, and an exit that is not the last")
        if each.last and index < len(exits) - 1:
            yield Fault(f"{key}[{index}].last", "is true, and another exit follows")


def _budget_faults(key: str, stage: StagePlan, plan: Plan) -> Iterator[Fault]:
    told = any(each.foreseen is not None for each in stage.exits)
    if stage.budget_field is not None and (not stage.exits or stage.exits[-1].last):
        yield Fault(f"{key}.budget_field", "needs exits, none of them the last")
    if stage.budget_field is not None and (told or any(each.thinking_tokens < 1 for each in stage.exits)):
        yield Fault(f"{key}.budget_field", "needs exits at 1 token or more, without foreseen")
    if stage.looks and plan.judge.kind != "embedding" and plan.foresight is None:
        at = f"{key}.budget_field" if stage.budget_field is not None else f"{key}.exits"
        yield Fault(at, "needs foresight, or a judge of kind embedding")


def _judge_faults(judge: JudgePlan, cluster: Cluster) -> Iterator[Fault]:
    if judge.replicas:
        yield from _replica_faults("judge", judge.replicas, cluster, judge.max_model_len)
        if judge.model is None:
            yield Fault("judge.model", "a judge with replicas needs a model")


def _capacity_faults(plan: Plan) -> Iterator[Fault]:
    taken: Counter[str] = Counter()
    for group in plan.groups:
        taken[group.pool] += group.gpus
    for pool in plan.cluster.pools:
        if taken[pool.name] > pool.gpus:
            yield Fault("stages", f"replicas take more GPUs than pool {pool.name!r} has ({pool.gpus})")


def _threshold_faults(key: str, thresholds: tuple[float, ...], stages: int) -> Iterator[Fault]:
    if len(thresholds) != stages - 1:
        yield Fault(key, f"there are {len(thresholds)} for {stages} stages; every stage but the last has one")
    for index, threshold in enumerate(thresholds):
        if threshold < 0:
            yield Fault(
                f"{key}[{index}]", f"is {threshold:g}", "write 0 to accept all, above 100 to accept none"
            )


def _skip_faults(plan: Plan) -> Iterator[Fault]:
    if not plan.skip_below:
        return
    if len(plan.skip_below) != len(plan.stages) - 1:
        yield Fault(
            "skip_below",
            f"there are {len(plan.skip_below)} for {len(plan.stages)} stages; every stage but the last has one",
        )
    for index, least in enumerate(plan.skip_below):
        if not 0 <= least <= 100 and not (plan.mixture and least == ASKS_NONE):
            yield Fault(f"skip_below[{index}]", f"is {least:g}", "write 0 to skip none, at most 100")
        if 0 < least < ASKS_NONE and plan.judge.kind != "embedding" and plan.foresight is None:
            yield Fault(
                f"skip_below[{index}]",
                f"needs foresight, or a judge of kind embedding; the plan's is of kind {plan.judge.kind}",
                "write 0",
            )


def _mixture_faults(plan: Plan) -> Iterator[Fault]:
    mixture = plan.mixture
    if mixture is None:
        return
    if len(plan.gears) > 1:
        yield Fault("mixture", "stands beside gears, which bring thresholds of their own", "keep one of them")
    if not 0 < mixture.share < 1:
        yield Fault("mixture.share", f"is {mixture.share:g}", "write a share between 0 and 1")
    yield from _threshold_faults("mixture.thresholds", mixture.thresholds, len(plan.stages))
    if len(mixture.skip_below) != len(plan.stages) - 1:
        yield Fault(
            "mixture.skip_below", f"there are {len(mixture.skip_below)} for {len(plan.stages)} stages"
        )
    for index, least in enumerate(mixture.skip_below):
        if least not in (0, ASKS_NONE):
            yield Fault(f"mixture.skip_below[{index}]", f"is {least:g}", "write 0, or 101 to ask it never")


def _gear_faults(plan: Plan) -> Iterator[Fault]:
    """The last gear's border may be missing or not: where there is one gear, it is for any load."""
    deployed = [stage.name for stage in plan.stages if stage.deployed]
    for index, gear in enumerate(plan.gears):
        key = f"gears[{index}]"
        yield from _threshold_faults(f"{key}.thresholds", gear.thresholds, len(plan.stages))
        if gear.skip_below and len(gear.skip_below) != len(plan.stages) - 1:
            yield Fault(
                f"{key}.skip_below", f"there are {len(gear.skip_below)} for {len(plan.stages)} stages"
            )
        if not gear.stages:
            yield Fault(f"{key}.stages", "is empty", "name the stages that are asked, in order")
        for name in gear.stages:
            if name not in deployed:
                what = (
                    "has no replica" if any(name == stage.name for stage in plan.stages) else "is not a stage"
                )
                yield Fault(f"{key}.stages", f"{name!r} {what}", f"choose of: {', '.join(deployed)}")
        if list(gear.stages) != [name for name in deployed if name in gear.stages]:
            yield Fault(
                f"{key}.stages", "are not in the plan's order", "write each once, in the plan's order"
            )
        if gear.shares:
            yield Fault(f"{key}.shares", "are set, and a gear's work goes by the replicas' own", "write {}")
        if gear.max_rate_rps is not None and gear.max_rate_rps <= 0:
            yield Fault(f"{key}.max_rate_rps", "must be above 0")
        if gear.max_in_flight is None and index < len(plan.gears) - 1:
            yield Fault(f"{key}.max_in_flight", "is missing", "give each gear but the last a border")
    borders = [gear.max_in_flight or 0.0 for gear in plan.gears[:-1]]
    for index, (lower, upper) in enumerate(pairwise([0.0, *borders])):
        if upper <= lower:
            yield Fault(f"gears[{index}].max_in_flight", "does not rise", "list gears by rising borders")
    for index, (heavier, lighter) in enumerate(pairwise(plan.gears)):
        if _asks_more(plan, lighter, heavier):
            yield Fault(
                f"gears[{index + 1}]",
                f"asks more of the replicas than gears[{index}], at more load",
                "list gears from heavy to light",
            )
    if len(plan.gears) > 1 and plan.gears[-1].max_in_flight is not None:
        yield Fault(
            f"gears[{len(plan.gears) - 1}].max_in_flight", "is set", "write null: the last has no border"
        )


def _under_load_faults(plan: Plan) -> Iterator[Fault]:
    floor = plan.under_load.quality_floor if plan.under_load else None
    if floor is not None and not 0 <= floor <= 100:
        yield Fault("under_load.quality_floor", f"is {floor:g}", "write 0 to 100")


def _scaling_faults(plan: Plan) -> Iterator[Fault]:
    if plan.scaling is None:
        return
    groups = {stage.name: stage.replicas for stage in plan.stages} | {JUDGE: plan.judge.replicas}
    before = 0.0
    for index, scale in enumerate(plan.scaling.scales):
        key = f"scaling.scales[{index}]"
        if not scale.times > before:
            yield Fault(f"{key}.times", f"is {scale.times:g}, and not above {before:g}")
        before = scale.times
        for name, counts in scale.replicas.items():
            if len(counts) != len(groups.get(name, ())):
                yield Fault(f"{key}.replicas.{name}", "has other groups than the stage")
            if min(counts, default=0) < 0 or sum(counts) < bool(counts):
                yield Fault(
                    f"{key}.replicas.{name}", "is no number of replicas of each group, one at least in all"
                )
    for index, peak in enumerate(plan.scaling.peaks):
        if peak.span_s <= 0.0 or peak.times < 1.0:
            yield Fault(f"scaling.peaks[{index}]", "is no rate above the mean within some seconds")


def _asks_more(plan: Plan, gear: Gear, than: Gear) -> bool:
    """Tells whether every request goes at least as far as in the other gear, and some may go further."""
    if gear.stages[: len(than.stages)] != than.stages or any(gear.skip_below) or any(than.skip_below):
        return False
    at = [i for i, stage in enumerate(plan.stages) if stage.name in than.stages[:-1]]
    pairs = [(gear.thresholds[i], than.thresholds[i]) for i in at]
    further = len(gear.stages) > len(than.stages) or any(mine > other for mine, other in pairs)
    return further and all(mine >= other for mine, other in pairs)


def _twice(key: str, names: list[str]) -> Iterator[Fault]:
    for name, count in Counter(names).items():
        if count > 1:
            yield Fault(key, f"{name!r} is there {count} times")

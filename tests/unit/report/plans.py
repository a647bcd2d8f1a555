"""Plans at the edges of what a plan can be."""

import math
from dataclasses import replace

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.objective import Objective
from cascadia.domain.plan import JudgePlan, Plan, Proof, ReplicaGroup
from tests.unit.report.sample import sample_plan


def one_stage() -> Plan:
    """Only the large model is deployed; nobody judges."""
    plan = sample_plan()
    stages = (*(replace(s, replicas=()) for s in plan.stages[:-1]), plan.stages[-1])
    alone = replace(plan.predicted.stages[-1], reached=1.0, accepted=1.0, rate_rps=10.0)
    judge = JudgePlan(
        "certainty", "router", None, engine="vllm", quantization=None, max_model_len=4096, replicas=()
    )
    predicted = replace(plan.predicted, stages=(alone,), judge=None)
    return replace(plan, stages=stages, judge=judge, predicted=predicted, gears=())


def without_middle() -> Plan:
    """The medium model is left out."""
    plan = sample_plan()
    small, medium, large = plan.stages
    first, _, last = plan.predicted.stages
    predicted = replace(plan.predicted, stages=(first, replace(last, reached=0.3787, accepted=0.3787)))
    return replace(plan, stages=(small, replace(medium, replicas=()), large), predicted=predicted)


def thresholds_at_their_ends() -> Plan:
    """The first gate lets everything through, the second nothing."""
    return replace(sample_plan(), thresholds=(0.0, 101.0), gears=())


def unproven() -> Plan:
    plan = sample_plan()
    proof = Proof("incumbent", "paper", math.inf, 0.0, 1.0)
    return replace(plan, proof=proof, predicted=replace(plan.predicted, stage_bound_s=math.inf))


def stopped_early() -> Plan:
    return replace(sample_plan(), proof=Proof("incumbent", "columns", 11.21, 10.8, 0.0366))


def for_quality() -> Plan:
    return replace(sample_plan(), objective=Objective("quality", 0.95, None, 20.0))


def for_cost() -> Plan:
    return replace(sample_plan(), objective=Objective("cost", 0.99, 85.0, 20.0))


def thousand_gpus() -> Plan:
    """1,024 GPUs in four pools, five shapes in a stage."""
    plan = sample_plan()
    pools = (
        Pool("h100", "h100-sxm", 64, 8, 2.67),
        Pool("h200", "h200-sxm", 32, 8, 3.4),
        Pool("a100", "a100-80gb-sxm", 24, 8, 1.6),
        Pool("l40s", "l40s", 16, 4, 0.8),
    )
    small = (ReplicaGroup("l40s", 1, 1, 60, 0.5), ReplicaGroup("a100", 1, 1, 61, 0.5))
    medium = (ReplicaGroup("a100", 2, 1, 65, 0.7), ReplicaGroup("h100", 4, 1, 10, 0.3))
    large = (
        ReplicaGroup("h100", 8, 1, 40, 0.6),
        ReplicaGroup("h100", 4, 3, 12, 0.1),
        ReplicaGroup("h200", 8, 1, 30, 0.3),
    )
    stages = tuple(replace(s, replicas=r) for s, r in zip(plan.stages, (small, medium, large), strict=True))
    judge = replace(plan.judge, replicas=(ReplicaGroup("h200", 1, 1, 9, 1.0),))
    predicted = replace(plan.predicted, rate_rps=412.0, usd_per_hour=2304.0, usd_per_1k_requests=1.553)
    return replace(plan, cluster=Cluster(pools), stages=stages, judge=judge, predicted=predicted)


def hostile(payload: str) -> Plan:
    """Every name that comes from outside carries `payload`."""
    plan = sample_plan()
    pool = replace(plan.cluster.pools[0], name=payload, gpu=payload)

    def moved(groups: tuple[ReplicaGroup, ...]) -> tuple[ReplicaGroup, ...]:
        return tuple(replace(group, pool=payload) for group in groups)

    stages = tuple(
        replace(s, name=f"{s.name}{payload}", model=payload, engine=payload, quantization=payload,
                replicas=moved(s.replicas))
        for s in plan.stages
    )  # fmt: skip
    predicted = replace(
        plan.predicted,
        stages=tuple(replace(p, name=f"{p.name}{payload}") for p in plan.predicted.stages),
        quality=replace(plan.predicted.quality, method=payload),
    )
    return replace(
        plan,
        cluster=Cluster((pool,)),
        stages=stages,
        predicted=predicted,
        judge=replace(plan.judge, model=payload, engine=payload, replicas=moved(plan.judge.replicas)),
        gears=tuple(
            replace(gear, stages=tuple(f"{name}{payload}" for name in gear.stages)) for gear in plan.gears
        ),
    )


EDGES = (
    one_stage,
    without_middle,
    thresholds_at_their_ends,
    unproven,
    stopped_early,
    for_quality,
    for_cost,
    thousand_gpus,
)

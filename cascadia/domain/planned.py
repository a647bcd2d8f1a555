"""A plan's predictions as a router's file has them, whoever writes it: what its page sets beside what is measured."""

from collections.abc import Mapping, Sequence
from typing import Any

from cascadia.domain.plan import Plan, ReplicaGroup, StagePrediction

DIGITS = 5


def planned_document(plan: Plan) -> dict[str, Any]:
    """The section `planned`; empty of plans for models that answer in one pass, which promise by the policy.

    Dollars of `stages` and of the judge are their GPUs' own; the whole has what APIs elsewhere charge, too.
    """
    if plan.policies:
        return {}
    found, seen = plan.predicted, {stage.name: stage for stage in plan.predicted.stages}
    judge = {} if found.judge is None else {"judge": _stage(plan, plan.judge.replicas, found.judge)}
    told = {
        "rate_rps": found.rate_rps,
        "p50_s": found.e2e.p50_s,
        "p95_s": found.e2e.p95_s,
        "ttft_p95_s": found.ttft.p95_s,
        "quality": found.quality.mean,
        "quality_lower": found.quality.lower,
        "score": found.score_mean,
        "usd_per_hour": found.usd_per_hour,
    }
    stages = {
        stage.name: _stage(plan, stage.replicas, seen[stage.name])
        for stage in plan.stages
        if stage.deployed and stage.name in seen
    }
    return {"planned": {**_rounded(told), "stages": stages, **judge}}


def _stage(plan: Plan, groups: Sequence[ReplicaGroup], seen: StagePrediction) -> dict[str, Any]:
    told = {
        "reached": seen.reached,
        "answered": seen.accepted,
        "p95_s": seen.latency.p95_s,
        "usd_per_hour": plan.usd_per_hour_of(groups),
    }
    return {**_rounded(told), "replicas": sum(group.count for group in groups)}


def _rounded(told: Mapping[str, float | None]) -> dict[str, float]:
    return {key: float(f"{value:.{DIGITS}g}") for key, value in told.items() if value is not None}

"""The plan as a `router.yaml`: its thresholds, whom it skips, and where its replicas ended up."""

from collections.abc import Mapping, Sequence
from typing import Any

from cascadia.domain.plan import Plan, StagePlan
from cascadia.domain.prices import USD_PER_MILLION, token_costs

JUDGE_TIMEOUT_S = 5.0


def router_document(
    plan: Plan, engines: Mapping[str, Sequence[str]], judge: str | None, port: int
) -> dict[str, Any]:
    """`engines`: addresses by deployed stage."""
    thresholds = dict(zip((stage.name for stage in plan.stages), (*plan.thresholds, 0.0), strict=True))
    deployed = [stage for stage in plan.stages if stage.deployed]
    costs = token_costs(plan)
    document: dict[str, Any] = {
        "stages": [
            _stage(stage, thresholds[stage.name], plan.skips(stage.name), engines[stage.name])
            | ({"cost": costs.by_stage[stage.name]} if costs else {})
            for stage in deployed
        ],
        **({"cost_unit": USD_PER_MILLION} if costs and costs.in_usd else {}),
        "port": port,
    }
    document |= plan.routing_document()
    if judge is not None:
        document["judge"] = {"kind": "embedding", "replicas": [{"url": judge}], "timeout_s": JUDGE_TIMEOUT_S}
    return document


def _stage(stage: StagePlan, threshold: float, skip: float | None, urls: Sequence[str]) -> dict[str, Any]:
    shares = [group.share / group.count for group in stage.replicas for _ in range(group.count)]
    return {
        "name": stage.name,
        "threshold": threshold,
        **({} if skip is None else {"skip_below": skip}),
        "max_model_len": stage.max_model_len,
        "replicas": [{"url": url, "share": share} for url, share in zip(urls, shares, strict=True)],
    }

"""The plan as a `router.yaml`: its thresholds, whom it skips, and where its replicas ended up."""

from collections.abc import Mapping, Sequence
from typing import Any

from cascadia.domain.plan import Plan, StagePlan
from cascadia.domain.planned import planned_document
from cascadia.domain.routed import stages_document

JUDGE_TIMEOUT_S = 5.0


def router_document(
    plan: Plan, engines: Mapping[str, Sequence[str]], judge: str | None, port: int
) -> dict[str, Any]:
    """`engines`: addresses by deployed stage; of one elsewhere its API's own. Raises `BadInput` where it has none."""
    deployed = (stage for stage in plan.stages if stage.deployed)
    own = {stage.name: _replicas(stage, engines.get(stage.name, ())) for stage in deployed}
    document = stages_document(plan)
    document["stages"] = [{"replicas": own[stage["name"]], **stage} for stage in document["stages"]]
    document |= {"port": port, **plan.routing_document(), **planned_document(plan)}
    if judge is not None:
        document["judge"] = {"kind": "embedding", "replicas": [{"url": judge}], "timeout_s": JUDGE_TIMEOUT_S}
    return document


def _replicas(stage: StagePlan, urls: Sequence[str]) -> list[dict[str, Any]]:
    shares = [group.share / group.count for group in stage.replicas for _ in range(group.count)]
    return [{"url": url, "share": share} for url, share in zip(urls, shares, strict=True)]

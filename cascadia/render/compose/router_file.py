"""The plan as a `router.yaml`: its thresholds, whom it skips, and where its replicas ended up."""

from collections.abc import Mapping, Sequence
from typing import Any

from cascadia.domain.plan import Deployed, Plan
from cascadia.domain.planned import planned_document
from cascadia.domain.routed import stages_document

JUDGE_TIMEOUT_S = 5.0


def router_document(
    plan: Plan, engines: Mapping[str, Sequence[str]], judge: str | None, port: int
) -> dict[str, Any]:
    """`engines`: addresses by deployed stage; of one elsewhere its API's own. Raises `BadInput` where it has none."""
    deployed = (stage for stage in plan.stages if stage.deployed)
    own = {
        stage.name: replicas_document(plan, stage.name, stage, engines.get(stage.name, ()))
        for stage in deployed
    }
    document = stages_document(plan)
    document["stages"] = [{"replicas": own[stage["name"]], **stage} for stage in document["stages"]]
    document |= {"port": port, **plan.routing_document(), **planned_document(plan)}
    if judge is not None:
        document["judge"] = {"kind": "embedding", "replicas": [{"url": judge}], "timeout_s": JUDGE_TIMEOUT_S}
    return document


def replicas_document(plan: Plan, name: str, unit: Deployed, urls: Sequence[str]) -> list[dict[str, Any]]:
    """Entries of the replicas of a stage, or of the judge, at these addresses."""
    most = plan.places(name, unit.config)
    shares = [
        (group.share / group.count, group.learns) for group in unit.replicas for _ in range(group.count)
    ]
    return [
        {"url": url, "share": share, "max_concurrency": most, **learns}
        for url, (share, learns) in zip(urls, shares, strict=True)
    ]

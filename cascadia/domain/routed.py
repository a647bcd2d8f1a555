"""A plan's stages as a router's file has them, whoever writes it; addresses of engines are theirs to add."""

from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.domain.external import External
from cascadia.domain.plan import Plan, StagePlan
from cascadia.domain.prices import USD_PER_MILLION, price_document, token_costs


def stages_document(plan: Plan) -> dict[str, Any]:
    """The sections `stages` and `cost_unit`, of the deployed stages, and the `names` of all. Only stages elsewhere have
    `model` and `replicas`.

    Raises `BadInput` where nothing says where one elsewhere is.
    """
    threshold = dict(zip((stage.name for stage in plan.stages), (*plan.thresholds, 0.0), strict=True))
    costs = token_costs(plan)
    stages = [
        {
            "name": stage.name,
            "threshold": threshold[stage.name],
            **_skips(plan, stage.name),
            "max_model_len": stage.max_model_len,
            **plan.stage_document(stage.name),
            **price_document(plan, stage.name),
            **({"cost": costs.by_stage[stage.name]} if costs else {}),
            **({} if stage.external is None else _elsewhere(stage, stage.external)),
        }
        for stage in plan.stages
        if stage.deployed
    ]
    unit = {"cost_unit": USD_PER_MILLION} if costs and costs.in_usd else {}
    return {"stages": stages, **unit, "names": [stage.name for stage in plan.stages]}


def _skips(plan: Plan, stage: str) -> dict[str, float]:
    least = plan.skips(stage)
    return {} if least is None else {"skip_below": least}


def _elsewhere(stage: StagePlan, api: External) -> dict[str, Any]:
    if api.base_url is None:
        what = "is somebody else's API, and nothing says where"
        raise BadInput(f"plan: stage {stage.name}", what, "plan with base_url")
    key = {"api_key_env": api.api_key_env} if api.api_key_env else {}
    limit = {"requests_per_minute": api.requests_per_minute} if api.requests_per_minute else {}
    replica = {"url": api.base_url, "health_path": None, **key, **limit}
    return {"model": stage.model, "replicas": [replica]}

"""A plan as Helm values: stages with their groups, the judge, thresholds and gears."""

from collections.abc import Iterator, Sequence
from typing import Any

from cascadia.domain.plan import Plan
from cascadia.render.engine_args import arguments, command
from cascadia.render.engine_groups import EngineGroup
from cascadia.render.engines import HTTP_PORT, IMAGE, VERSION
from cascadia.render.models import is_path, mounted_weights
from cascadia.render.yaml_text import yaml_text


def helm_values_yaml(plan: Plan, groups: Sequence[EngineGroup]) -> str:
    return yaml_text([helm_values(plan, groups)])


def helm_values(plan: Plan, groups: Sequence[EngineGroup]) -> dict[str, Any]:
    """`args` are those of one process; a chart appends the rank's own where `podsPerReplica` is above 1."""
    deployed = {group.served_name for group in groups if group.role == "stage"}
    judge = plan.judge
    return {
        "plan": {"digest": plan.digest, "version": plan.version, "seed": plan.seed},
        "cascade": {
            "stages": [stage.name for stage in plan.stages],
            "deployed": [stage.name for stage in plan.stages if stage.name in deployed],
            "thresholds": {
                stage.name: threshold
                for stage, threshold in zip(plan.stages[:-1], plan.thresholds, strict=False)
            },
            "gears": [
                {
                    "maxRateRps": gear.max_rate_rps,
                    "entryStage": gear.entry_stage,
                    "thresholds": list(gear.thresholds),
                }
                for gear in plan.gears
            ],
        },
        "stages": [_unit(members) for members in _by_service(groups, "stage")],
        "judge": {
            "kind": judge.kind,
            "placement": judge.placement,
            **{
                key: value
                for members in _by_service(groups, "judge")
                for key, value in _unit(members).items()
            },
        },
        "huggingFaceToken": {"secretName": "cascadia-hf-token", "secretKey": "token"},
    }


def _by_service(groups: Sequence[EngineGroup], role: str) -> Iterator[list[EngineGroup]]:
    """The groups of each stage, in the plan's order."""
    for service in dict.fromkeys(group.service for group in groups if group.role == role):
        yield [group for group in groups if group.service == service]


def _unit(members: Sequence[EngineGroup]) -> dict[str, Any]:
    first = members[0]
    return {
        "name": first.service,
        "servedModelName": first.served_name,
        "model": first.model,
        "engine": first.engine,
        "engineVersion": VERSION[first.engine],
        "port": HTTP_PORT,
        "drainSeconds": first.drain_s,
        "modelsVolume": is_path(first.model),
        "groups": [_group(group) for group in members],
    }


def _group(group: EngineGroup) -> dict[str, Any]:
    launch = group.launch(weights=mounted_weights(group.model), host="0.0.0.0", port=HTTP_PORT)
    return {
        "name": group.name,
        "pool": group.pool,
        "image": IMAGE[group.engine, group.gpu.vendor],
        "gpuResource": group.gpu.resource,
        "nodeSelector": {group.gpu.label: group.gpu.product},
        "tensorParallel": group.tp,
        "pipelineParallel": group.pp,
        "replicas": len(group.replicas),
        "podsPerReplica": group.ranks,
        "gpusPerPod": group.gpus_per_rank,
        "share": round(group.share, 9),
        "command": list(command(launch)),
        "args": list(arguments(launch)),
    }

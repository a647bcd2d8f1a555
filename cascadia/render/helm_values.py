"""A plan as the values of the Helm chart (`deploy/helm/cascadia`): stages with their groups, and the judge."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.domain.external import External
from cascadia.domain.plan import Plan
from cascadia.domain.planned import planned_document
from cascadia.domain.prices import USD_PER_MILLION, price_document, token_costs
from cascadia.render.engine_args import Launch, Ranks, arguments, command
from cascadia.render.engine_groups import JUDGE, EngineGroup
from cascadia.render.engines import HTTP_PORT, IMAGE, RENDEZVOUS_PORT, VERSION
from cascadia.render.gpu_nodes import labelled
from cascadia.render.kubernetes.chart_values import defaults
from cascadia.render.models import is_path, mounted_weights
from cascadia.render.notes import probes_refused
from cascadia.render.one_pass import exit_arguments
from cascadia.render.yaml_text import yaml_text
from cascadia_sim.iteration.engine_config import LLAMA_CPP


def helm_values_yaml(plan: Plan, groups: Sequence[EngineGroup]) -> str:
    return yaml_text([helm_values(plan, groups)])


def helm_values(plan: Plan, groups: Sequence[EngineGroup]) -> dict[str, Any]:
    """Values that the chart does not know by itself. Only deployed stages; the last has no threshold."""
    threshold = dict(zip((stage.name for stage in plan.stages), plan.thresholds, strict=False))
    length = {stage.name: stage.max_model_len for stage in plan.stages}
    stages = list(_by_unit(groups, "stage"))
    last = next((stage.name for stage in reversed(plan.stages) if stage.deployed), None)
    elsewhere = [
        {
            "servedModelName": stage.name,
            "model": stage.model,
            "threshold": 0 if stage.name == last else threshold[stage.name],
            **_skips(plan, stage.name),
            "maxModelLen": stage.max_model_len,
            **_api(stage.name, stage.external),
            "routing": _routing(plan, stage.name),
        }
        for stage in plan.stages
        if stage.external is not None
    ]
    costs = token_costs(plan)
    return {
        "plan": {"digest": plan.digest, "version": plan.version, "seed": plan.seed},
        "cascade": {
            "stages": [stage.name for stage in plan.stages],
            **plan.mixture_document(),
            **({"costUnit": USD_PER_MILLION} if costs and costs.in_usd else {}),
            **plan.gears_document(),
            **({"underLoad": {"then": plan.under_load.then}} if plan.under_load else {}),
            **plan.exits_document(),
            **planned_document(plan),
        },
        "stages": [
            {
                **_unit(plan, members),
                # The last accepts always: what a stage that is not deployed would ask is asked by none.
                "threshold": 0 if members[0].served_name == last else threshold[members[0].served_name],
                **_skips(plan, members[0].served_name),
                **({"cost": costs.by_stage[members[0].served_name]} if costs else {}),
                "maxModelLen": length[members[0].served_name],
                "routing": _routing(plan, members[0].served_name),
            }
            for members in stages
        ],
        **({"externalStages": elsewhere} if elsewhere else {}),
        "judge": _judge(plan, groups, needed=plan.asks_judge),
    }


def _routing(plan: Plan, stage: str) -> dict[str, Any]:
    return {**plan.stage_document(stage), **price_document(plan, stage)}


def _api(stage: str, api: External) -> dict[str, Any]:
    """Address and limit of somebody else's API, and the name of its key. Raises `BadInput` without an address."""
    if api.base_url is None:
        what = "is somebody else's API, and nothing says where"
        raise BadInput(f"stage {stage}", what, "write base_url into the spec, and plan anew")
    return {
        "url": api.base_url,
        "apiKeyEnv": api.api_key_env or "",
        "requestsPerMinute": api.requests_per_minute or 0,
    }


def _skips(plan: Plan, stage: str) -> dict[str, float]:
    least = plan.skips(stage)
    return {} if least is None else {"skipBelow": least}


def _judge(plan: Plan, groups: Sequence[EngineGroup], needed: bool) -> dict[str, Any]:
    """Values of the judge; its kind is `none` where nobody asks it anything."""
    judge = plan.judge
    members = next(_by_unit(groups, "judge"), None)
    if members is not None:
        return {"kind": judge.kind, "placement": judge.placement, **_unit(plan, members)}
    found: dict[str, Any] = {"kind": judge.kind if needed else "none", "placement": judge.placement}
    if found["kind"] == "llm":
        # One elsewhere is asked for by its model's own name.
        found["servedModelName"] = judge.model or JUDGE
    if found["kind"] == "embedding" and judge.exits is not None:
        args = defaults()["judge"]["service"]["args"]
        found["service"] = {"args": [*args, *exit_arguments(judge.exits)]}
    if found["kind"] == "probe":
        raise probes_refused("the chart starts no probes")
    return found


def _by_unit(groups: Sequence[EngineGroup], role: str) -> Iterator[list[EngineGroup]]:
    """The groups of each stage, in the plan's order."""
    for stem in dict.fromkeys(group.stem for group in groups if group.role == role):
        yield [group for group in groups if group.stem == stem and group.role == role]


def _unit(plan: Plan, members: Sequence[EngineGroup]) -> dict[str, Any]:
    first = members[0]
    if first.engine == LLAMA_CPP:
        raise BadInput(
            f"stage {first.served_name}: engine",
            "llama.cpp is not deployed to Kubernetes",
            "use vllm or sglang there, or run the plan with `cascadia up` or as a compose file",
        )
    return {
        "name": first.stem,
        "servedModelName": first.served_name,
        "model": first.model,
        "engine": first.engine,
        "engineVersion": VERSION[first.engine],
        "maxConcurrency": plan.places(first.served_name, first.config),
        "drainSeconds": first.drain_s,
        "modelsVolume": is_path(first.loads),
        "groups": [_group(group, _share(group, members)) for group in members],
    }


def _share(group: EngineGroup, members: Sequence[EngineGroup]) -> float:
    """Share of a group, by number of replicas where it has none: a router sends something to each."""
    if min(member.share for member in members) > 0:
        # Rounding may make 0 of a small share, which the router refuses.
        return max(round(group.share, 9), 1e-9)
    return round(len(group.replicas) / sum(len(member.replicas) for member in members), 9)


def _group(group: EngineGroup, share: float) -> dict[str, Any]:
    """`args` are of the rank that serves, `workerArgs` of the others where a replica is several pods."""
    several = group.ranks > 1
    launch = _launch(group)
    serving = _ranked(group, launch, "0") if several else launch
    found = {
        "name": group.name_stem,
        "pool": group.pool,
        "image": IMAGE[group.engine, group.gpu.vendor],
        "gpuResource": group.gpu.resource,
        "gpuLabel": group.gpu.label,
        "gpuProducts": [labelled(group.gpu, group.hardware.name).product],
        "tensorParallel": group.tp,
        "pipelineParallel": group.pp,
        "replicas": len(group.replicas),
        "podsPerReplica": group.ranks,
        "gpusPerPod": group.gpus_per_rank,
        "share": share,
        "command": list(command(launch)),
        "args": list(arguments(serving)),
    }
    if group.learns:
        found["learns"] = dict(group.learns)
    if several:
        found["workerArgs"] = list(arguments(_ranked(group, launch, "$(LWS_WORKER_INDEX)")))
    return found


def _launch(group: EngineGroup) -> Launch:
    launch = group.launch(weights=mounted_weights(group.loads), host="0.0.0.0", port=HTTP_PORT)
    # Kubernetes expands $(NAME) in arguments, and $$ is its way to write a dollar sign.
    return replace(
        launch,
        weights=launch.weights.replace("$", "$$"),
        served_name=launch.served_name.replace("$", "$$"),
    )


def _ranked(group: EngineGroup, launch: Launch, rank: str) -> Launch:
    """LeaderWorkerSet sets both variables in every container of a group."""
    return replace(launch, ranks=Ranks(group.ranks, rank, "$(LWS_LEADER_ADDRESS)", RENDEZVOUS_PORT))

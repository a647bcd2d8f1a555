"""A plan as settings of a router: its thresholds, its stages and the shares of their replicas."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.domain.external import External
from cascadia.domain.names import FORESIGHT, JUDGE
from cascadia.domain.plan import JudgePlan, Plan, ReplicaGroup, StagePlan
from cascadia.domain.planned import planned_document
from cascadia.domain.prices import USD_PER_MILLION, token_costs, token_prices
from cascadia.planner.problem.models import find_architecture
from cascadia.router.settings.file import check_settings, check_url, foresight_at
from cascadia.router.settings.gears import gears_of
from cascadia.router.settings.groups import GroupSection, minimum_queue
from cascadia.router.settings.judge import check_prompt
from cascadia.router.settings.model import (
    ExitSettings,
    GearSettings,
    GroupSettings,
    JudgeSettings,
    MixtureSettings,
    PlannedSettings,
    ReplicaSettings,
    RouterSettings,
    StageSettings,
)
from cascadia.router.settings.planned import planned_of
from cascadia_sim.iteration.engine_config import LLAMA_CPP

Addresses = Mapping[str, Sequence[str]]
"""By stage name, or `judge`: the address of each replica, in the plan's order."""


def settings_of(
    plan: Plan, addresses: Addresses, where: str, environment: Mapping[str, str] | None = os.environ
) -> RouterSettings:
    """Settings of a router for `plan`. `environment` holds the keys of stages elsewhere; None: they are known already.

    Raises `BadInput` where a deployed stage has no address, or an address no stage."""
    deployed = [stage for stage in plan.stages if stage.deployed]
    known = [*dict.fromkeys(stage.group or stage.name for stage in deployed), JUDGE]
    known += [FORESIGHT] if plan.foresight else []
    for name in addresses:
        if name not in known:
            raise BadInput(
                f"--endpoint {name}", "the plan deploys no such stage", f"it has {', '.join(known)}"
            )
    threshold = dict(zip((stage.name for stage in plan.stages), (*plan.thresholds, 0.0), strict=True))
    costs, prices = token_costs(plan), token_prices(plan)
    loads = {stage.name: plan.stage_document(stage.name).get("load") for stage in deployed}
    settings = RouterSettings(
        stages=tuple(
            StageSettings(
                name=stage.name,
                model=stage.name if stage.external is None else stage.model,
                replicas=_stage_replicas(plan, stage, addresses, environment),
                threshold=threshold[stage.name],
                skip_below=plan.skips(stage.name),
                max_model_len=stage.max_model_len,
                balancing=stage.balancing,
                latency_max_s=plan.objective.latency_max_s,
                max_tokens=stage.max_tokens,
                task=stage.task,
                group=stage.group,
                cost=costs.by_stage[stage.name] if costs else _cost(stage.model, Path(where).parent),
                price=prices.get(stage.name),
                load=loads[stage.name],
                exits=tuple(
                    ExitSettings(e.thinking_tokens, e.threshold, e.last, e.foreseen) for e in stage.exits
                ),
                promise=plan.exits if stage.exits else None,
                echoes=stage.engine == LLAMA_CPP,
                budget_field=stage.budget_field if stage.exits else None,
            )
            for stage in deployed
        ),
        judge=_judge(plan, addresses) if plan.asks_judge else None,
        foresight=_foresight(addresses) if plan.foresight else None,
        names=tuple(stage.name for stage in plan.stages),
        mixture=_mixture(plan),
        gears=_gears(plan),
        groups=_groups(plan),
        when_overloaded="queue" if plan.under_load is None else plan.under_load.then,
        cost_unit=USD_PER_MILLION if costs and costs.in_usd else None,
        planned=_planned_figures(plan),
    )
    check_settings(settings, where)
    return settings


def _stage_replicas(
    plan: Plan, stage: StagePlan, addresses: Addresses, environment: Mapping[str, str] | None
) -> tuple[ReplicaSettings, ...]:
    """Replicas at their addresses; of a stage elsewhere its API, with the key that the environment has."""
    if stage.external is None:
        return _replicas(
            stage.group or stage.name,
            stage.replicas,
            plan.places(stage.name, stage.config),
            addresses,
        )
    return (external_replica(stage.name, stage.external, addresses.get(stage.name, ()), environment),)


def external_replica(
    stage: str, api: External, addresses: Sequence[str], environment: Mapping[str, str] | None
) -> ReplicaSettings:
    """Settings of somebody else's API. Raises `BadInput` without an address, or where its variable is not set."""
    url = next(iter(addresses), api.base_url)
    if url is None:
        where = f"--endpoint {stage}"
        raise BadInput(
            where, "is missing: the plan does not say where this API is", f"write {where}=https://HOST"
        )
    key = environment.get(api.api_key_env) if environment is not None and api.api_key_env else None
    if environment is not None and api.api_key_env is not None and not key:
        raise BadInput(
            f"{api.api_key_env} in the environment",
            f"is not set, and stage {stage} needs its key",
            "export it",
        )
    return ReplicaSettings(
        check_url(url, f"--endpoint {stage}"),
        health_path=None,
        api_key=key,
        requests_per_minute=api.requests_per_minute,
    )


def _planned_figures(plan: Plan) -> PlannedSettings | None:
    document = planned_document(plan)
    return planned_of(document["planned"]) if document else None


def _mixture(plan: Plan) -> MixtureSettings | None:
    told = plan.mixture_by_stage
    return None if told is None else MixtureSettings(*told)


def _gears(plan: Plan) -> tuple[GearSettings, ...]:
    document: Mapping[str, Any] = plan.gears_document()
    return gears_of(document.get("gears", ()))


def _groups(plan: Plan) -> tuple[GroupSettings, ...]:
    """Groups of one-pass models, each served by the plan's policies."""
    found = []
    for policies in plan.policies:
        section = GroupSection.model_validate({"name": policies.group, "slo_ms": 1e3 * policies.slo_s})
        members = [stage.name for stage in plan.stages if stage.deployed and stage.group == policies.group]
        own = {name: minimum_queue(name, section, policies.workers) for name in members}
        found.append(GroupSettings(policies.group, own, policies))
    return tuple(found)


def _foresight(addresses: Addresses) -> JudgeSettings:
    at = f"--endpoint {FORESIGHT}"
    if not addresses.get(FORESIGHT):
        what = "is missing: the plan passes stages over by the question alone"
        raise BadInput(at, what, f"write {at}=http://HOST:PORT, of `cascadia judge serve FORESIGHT`")
    return foresight_at(tuple(ReplicaSettings(check_url(url, at)) for url in addresses[FORESIGHT]))


def _cost(model: str, folder: Path) -> float | None:
    """Cost of a token: the billions of parameters that it passes through. None where the model's config is not
    to be had.
    """
    try:
        return find_architecture(model, folder, "").active_parameters / 1e9
    except BadInput:
        return None


def under_plan(files: RouterSettings, plan: Plan) -> RouterSettings:
    """`files` with the thresholds, stages and shares of `plan`; addresses, keys and limits stay those of `files`.

    A plan that foresaw nothing leaves `skip_below` to `files` too, one without `under_load` what it says.
    Raises `BadInput` where the plan deploys a stage that `files` has no addresses of, or scores by another judge.
    """
    known = {stage.name: stage for stage in files.stages}
    deployed = [stage.name for stage in plan.stages if stage.deployed]
    if (unknown := next((name for name in deployed if name not in known), None)) is not None:
        what = f"deploys stage {unknown}, which the router's files have not: {', '.join(known)}"
        raise BadInput("plan.stages", what, "add it to the files first, which say where its replicas are")
    group = {stage.name: stage.group or stage.name for stage in plan.stages}
    addresses = {group[name]: [r.url for r in known[name].replicas] for name in deployed if name in known}
    if files.judge is not None and files.judge.stage is not None and plan.asks_judge:
        addresses[JUDGE] = [replica.url for replica in files.judge.stage.replicas]
    if plan.foresight and files.foresight is not None and files.foresight.stage is not None:
        addresses[FORESIGHT] = [replica.url for replica in files.foresight.stage.replicas]
    told = settings_of(plan, addresses, "plan", None)
    if told.judge is not None and files.judge is not None:
        _refuse_another(plan.judge, told.judge, files.judge)
    replicas = {stage.name: stage.replicas for stage in plan.stages}
    stages = tuple(_planned(known[stage.name], stage, replicas[stage.name]) for stage in told.stages)
    if told.cost_unit == files.cost_unit is not None:
        # Another plan uses the GPUs otherwise. Costs on a scale of the files' own stay.
        costs = {stage.name: stage.cost for stage in told.stages}
        stages = tuple(replace(stage, cost=costs[stage.name]) for stage in stages)
    if any(stage.price is not None for stage in files.stages):
        prices = {stage.name: stage.price for stage in told.stages}
        stages = tuple(replace(stage, price=prices[stage.name] or stage.price) for stage in stages)
    if plan.skip_below:
        stages = tuple(replace(stage, skip_below=plan.skips(stage.name)) for stage in stages)
    return replace(
        files,
        stages=stages,
        judge=files.judge or told.judge,
        names=told.names,
        mixture=told.mixture,
        gears=told.gears,
        groups=_with_policies(files.groups, told.groups),
        planned=told.planned,
        when_overloaded=files.when_overloaded if plan.under_load is None else told.when_overloaded,
    )


def _with_policies(
    files: Sequence[GroupSettings], told: Sequence[GroupSettings]
) -> tuple[GroupSettings, ...]:
    """Groups of a plan, as `files` serve who names a stage; those of `files` where it has none."""
    own = {group.name: group for group in files}
    put = (replace(own.get(group.name, group), policies=group.policies) for group in told)
    return tuple(put) or tuple(files)


def _refuse_another(planned: JudgePlan, told: JudgeSettings, file: JudgeSettings) -> None:
    """Raises `BadInput` where the plan's thresholds were chosen on the scores of another judge than the router's."""
    differ: list[tuple[str, str, str]] = [("kind", planned.kind, file.kind)]
    if file.scale is not None:
        differ.append(("scale", f"{planned.scale:g}", f"{file.scale:g}"))
    if told.stage is not None and file.stage is not None and planned.placement == "external":
        differ.append(("model", told.stage.model, file.stage.model))
    for what, plans, routers in differ:
        if plans != routers:
            raise BadInput(
                "plan.judge",
                f"is of {what} {plans}, the router's of {what} {routers}",
                "its thresholds mean nothing to another judge: change the router's files",
            )


def _planned(file: StageSettings, told: StageSettings, groups: Sequence[ReplicaGroup]) -> StageSettings:
    """Settings of a stage as planned: where a name stands for a group, `share` is of each of its addresses."""
    by_group = len(file.replicas) == len(groups)
    counts = [group.count for group in groups] if by_group else [1] * len(file.replicas)
    replicas = tuple(
        replace(
            replica,
            share=planned.share / (count if replica.resolve else 1),
            kind=planned.kind or replica.kind,
            latency=planned.latency or replica.latency,
            planned=count if replica.resolve else 1,
            max_concurrency=planned.max_concurrency,
        )
        for replica, planned, count in zip(file.replicas, told.replicas, counts, strict=True)
    )
    balancing = file.balancing if told.balancing == "least-outstanding" else told.balancing
    return replace(
        file,
        replicas=replicas,
        threshold=told.threshold,
        max_model_len=told.max_model_len,
        max_tokens=told.max_tokens or file.max_tokens,
        balancing=balancing,
        latency_max_s=told.latency_max_s or file.latency_max_s,
        load=told.load,
        exits=told.exits,
        promise=told.promise or file.promise,
        echoes=told.echoes or file.echoes,
        budget_field=told.budget_field,
    )


def _judge(plan: Plan, addresses: Addresses) -> JudgeSettings | None:
    judge = plan.judge
    if judge.kind == "llm":
        check_prompt(judge.prompt_version, "plan.judge.prompt_version")
    if JUDGE in addresses:
        replicas = _replicas(JUDGE, judge.replicas, plan.places(JUDGE, judge.config), addresses)
        if judge.kind == "embedding":
            return JudgeSettings("embedding", StageSettings(JUDGE, JUDGE, replicas))
        # A judge of ours is served as `judge`, one elsewhere under its own name.
        model = JUDGE if judge.gpus else judge.model or JUDGE
        return JudgeSettings("llm", StageSettings(JUDGE, model, replicas))
    match judge.kind:
        case "certainty" | "probe" as kind:
            return JudgeSettings(kind)
    raise BadInput(
        f"--endpoint {JUDGE}", f"the plan's judge is of kind {judge.kind}, and has no address", "give one"
    )


def _replicas(
    name: str, groups: Sequence[ReplicaGroup], max_concurrency: int, addresses: Addresses
) -> tuple[ReplicaSettings, ...]:
    urls = addresses.get(name, ())
    if not urls:
        raise BadInput(f"--endpoint {name}", "is missing", f"write --endpoint {name}=http://HOST:PORT")
    shares = [group.share / group.count for group in groups for _ in range(group.count)]
    if len(urls) == len(groups):
        # A name for each group, e.g. its Service.
        shares = [group.share for group in groups]
    told = [(_kind(group), _line(group)) for group in groups for _ in range(group.count)]
    if len(urls) == len(groups):
        told = [(_kind(group), _line(group)) for group in groups]
    if len(told) != len(urls):
        told = [(None, None)] * len(urls)
    if len(shares) != len(urls) or min(shares) <= 0:
        # Another number of replicas than planned, e.g. a Service in front of them: none is known to be larger.
        shares = [1.0] * len(urls)
    return tuple(
        # An engine's own batch and as many in its queue, so that it never waits for the router.
        ReplicaSettings(check_url(url, f"--endpoint {name}"), share, max_concurrency, kind=kind, latency=line)
        for url, share, (kind, line) in zip(urls, shares, told, strict=True)
    )


def _kind(group: ReplicaGroup) -> str | None:
    return None if group.latency is None else group.kind


def _line(group: ReplicaGroup) -> tuple[float, float, float, float] | None:
    line = group.latency
    return None if line is None else (line.base_s, line.read_s, line.step_s, line.load_s)

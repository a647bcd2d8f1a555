"""A plan of models that answer in one pass: workers that have all the models, and policies of which takes a batch.

What `choose` finds, in the form in which every other plan is written, replayed and run.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from time import perf_counter

import numpy as np

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import BadInput
from cascadia.domain.gear import Gear
from cascadia.domain.names import point_of
from cascadia.domain.objective import Objective
from cascadia.domain.plan import (
    FORMAT_VERSION,
    ExitPromise,
    JudgePlan,
    Plan,
    Predicted,
    Proof,
    QualityPrediction,
    ReplicaGroup,
    StagePlan,
    StagePrediction,
    WorkloadRules,
)
from cascadia.domain.policy import Policies
from cascadia.domain.workload import Floats
from cascadia.files.homes import named_path
from cascadia.planner.account.assemble import quantiles
from cascadia.planner.deployment.simulation import quantile_s
from cascadia.planner.policies.choose import Chosen, choose
from cascadia.planner.policies.read import Asked
from cascadia.planner.policies.residence import Kind
from cascadia.planner.policies.wanted import judged
from cascadia.planner.problem.trace_file import file_digest
from cascadia.planner.spec.policy import OnePassStage
from cascadia.policy.problem import ModelProfile
from cascadia_sim.batch.simulate import BatchRun
from cascadia_sim.hardware.catalogue import UnknownGpu, gpu

CONFIDENCE = 0.95
LARGEST_QUANTILE = 0.9999
"""Of the latency that is told, where nothing may be late."""
RAMPS = "ramps.json"
SLOWER = 1.1
"""Times as long as measured: so far a simulated p95 may be from a real engine's (docs/models/policy.md)."""


@dataclass(frozen=True, slots=True, eq=False)
class OnePassPlan:
    """`chosen` is what the plan was written from; `run` the traffic on it, by request."""

    plan: Plan
    notes: tuple[str, ...]
    chosen: Chosen
    run: BatchRun


def plan_one_pass(asked: Asked, folder: Path, tokens_max: Mapping[str, int]) -> OnePassPlan:
    """The fewest, or cheapest, workers that keep the objective, all with the same models. `folder` is the spec's;
    `tokens_max` (by stage) the longest input of each. Raises `BadInput`, and `Infeasible` where there are none."""
    began_s = perf_counter()
    _check_engines(asked, folder)
    pools = tuple(_pool(asked, kind) for kind in asked.kinds)
    chosen = choose(asked.group, [replace(kind, alike=True) for kind in asked.kinds], asked.wanted)
    policies, models = chosen.policies, chosen.group.models
    run, judged_s, _ = judged(policies, models, asked.wanted)
    names = set(policies.models)
    replicas = ReplicaGroup(chosen.kind.name, 1, 1, chosen.group.workers, 1.0)
    ranked = _ranked(asked, chosen.kind, names)
    stages = tuple(
        _stage(spec, profile, (replicas,) if profile.name in names else (), folder, asked.group, tokens_max)
        for spec, profile in ranked
    )
    objective = _objective(asked)
    predicted = predict_one_pass(
        policies, models, run, judged_s, skip=asked.wanted.skip, quantile=objective.quantile
    )
    predicted = replace(
        predicted,
        quality=_quality(asked, predicted, models),
        usd_per_hour=chosen.usd_per_hour,
        usd_per_1k_requests=chosen.usd_per_hour / 3.6 / predicted.rate_rps,
    )
    thresholds = (0.0,) * (len(stages) - 1)
    deployed = tuple(stage.name for stage in stages if stage.deployed)
    tried = len(chosen.rivals)
    plan = Plan(
        FORMAT_VERSION,
        objective,
        Cluster(pools),
        thresholds=thresholds,
        stages=stages,
        judge=JudgePlan(
            "certainty", "router", None, engine="", quantization=None, max_model_len=1, replicas=()
        ),
        predicted=predicted,
        gears=(Gear(None, None, deployed, thresholds),),
        proof=Proof("incumbent", "columns", predicted.objective_s, 0.0, 1.0, tried),
        seed=asked.spec.seed,
        digest=_digest(asked, folder),
        wall_s=perf_counter() - began_s,
        policies=(policies,),
        exits=_exits(asked, stages),
        workload=_rules(asked, folder),
    )
    notes = (
        *asked.notes,
        *_notes(chosen, stages),
        *_slower_notes(asked, chosen),
        *_exit_notes(asked, stages),
    )
    return OnePassPlan(plan, notes, chosen, run)


def predict_one_pass(
    policies: Policies,
    models: tuple[ModelProfile, ...],
    run: BatchRun,
    arrival_s: Floats,
    *,
    skip: int = 0,
    quantile: float,
) -> Predicted:
    """Predictions from one run, its first `skip` requests not counted; `quantile` is the objective's. Prices are left
    to the caller."""
    latency_s, model = run.latency_s[skip:], run.model[skip:]
    answered = np.isfinite(latency_s)
    in_time = latency_s <= policies.slo_s + 1e-9
    rate_rps = (len(arrival_s) - 1) / float(arrival_s[-1] - arrival_s[0])
    accuracy = {profile.name: profile.accuracy for profile in models}
    right = np.array([accuracy[name] for name in policies.models])
    mean = float(right[model[in_time]].mean()) if in_time.any() else 0.0
    e2e = quantiles(latency_s[answered])
    stages = []
    for number, name in enumerate(policies.models):
        of_it = latency_s[answered & (model == number)]
        share = len(of_it) / max(len(latency_s), 1)
        told = quantiles(of_it)
        stages.append(
            StagePrediction(
                name, share, share, rate_rps=share * rate_rps, latency=told, ttft=told,
                utilisation=float(run.busy.max()), tokens_per_s=0.0, load=float(run.busy.mean()),
            )
        )  # fmt: skip
    within = quantile_s(latency_s[answered], quantile)
    quality = QualityPrediction(mean, mean, CONFIDENCE, "stated", 0)
    return Predicted(
        e2e,
        e2e,
        objective_s=within,
        stage_bound_s=within,
        quality=quality,
        stages=tuple(stages),
        judge=None,
        rate_rps=rate_rps,
        usd_per_hour=0.0,
        usd_per_1k_requests=0.0,
    )


def _check_engines(asked: Asked, folder: Path) -> None:
    for at, stage in enumerate(asked.spec.stages):
        where = f"stages[{at}]"
        if stage.engine != "onnxruntime":
            raise BadInput(
                f"{where}.engine",
                f"is {stage.engine}, of which a worker would need one for each model",
                "write onnxruntime, or start the engines yourself and name them in router.yaml "
                "(docs/reference/onepass.md)",
            )
        if stage.model is None:
            raise BadInput(
                f"{where}.model", "is missing", "write the folder that `cascadia engine make` wrote"
            )
        if stage.exits:
            _check_ramps(folder / stage.model, f"{where}.exits: its model")


def _pool(asked: Asked, kind: Kind) -> Pool:
    at, worker = next(
        (at, worker) for at, worker in enumerate(asked.spec.workers) if worker.kind == kind.name
    )
    try:
        gpu(worker.gpu)
    except UnknownGpu as error:
        raise BadInput(f"workers[{at}].gpu", error.what, error.instead) from None
    return Pool(kind.name, worker.gpu, 1, kind.most, kind.usd_per_hour)


def _ranked(asked: Asked, kind: Kind, used: set[str]) -> list[tuple[OnePassStage, ModelProfile]]:
    """Stages with their profiles, the least accurate first; of their exits those that are used."""
    stages = {stage.name: stage for stage in asked.spec.stages}
    offered = next(each for each in asked.kinds if each.name == kind.name)
    pairs = [
        (stages[point_of(profile.name).stage], profile)
        for profile in (*offered.models, *offered.exits)
        if profile.name in used or point_of(profile.name).at is None
    ]
    return sorted(pairs, key=lambda pair: pair[1].accuracy)


def _stage(
    spec: OnePassStage,
    profile: ModelProfile,
    replicas: tuple[ReplicaGroup, ...],
    folder: Path,
    group: str,
    tokens_max: Mapping[str, int],
) -> StagePlan:
    return StagePlan(
        profile.name,
        str(named_path(folder, spec.model or "").resolve()),
        spec.engine,
        quantization=None,
        max_model_len=tokens_max[spec.name],
        replicas=replicas,
        task=spec.task,
        group=group,
        accuracy=profile.accuracy,
        batch_s=profile.latency_s,
        batch_drawn_s=profile.drawn_s,
        at=point_of(profile.name).at,
    )


def _quality(asked: Asked, predicted: Predicted, models: tuple[ModelProfile, ...]) -> QualityPrediction:
    """The mean as it was measured, with the error that so many texts leave. Exits are many, and the luckiest on these
    texts is chosen: the error is one that none of them has (Bonferroni).
    """
    mean = predicted.quality.mean
    counts = [asked.texts.get(model.name, 0) for model in models]
    if not all(counts):
        return predicted.quality
    share = mean / 100
    choices = 1 + max(len(kind.exits) for kind in asked.kinds)
    off = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / choices) * (share * (1 - share) / min(counts)) ** 0.5
    return QualityPrediction(mean, max(100 * (share - off), 0.0), CONFIDENCE, "normal", min(counts))


def _objective(asked: Asked) -> Objective:
    told = asked.spec.objective
    return Objective(
        "cost" if told.minimize else "quality",
        min(1 - told.late_max, LARGEST_QUANTILE),
        told.quality_min,
        told.latency_max_s,
    )


def _exits(asked: Asked, stages: tuple[StagePlan, ...]) -> ExitPromise | None:
    """Exits as the spec has them. Raises `BadInput` for a model that has no ramps."""
    exits = asked.spec.exits
    if exits is None:
        return None
    for stage in stages:
        if stage.deployed:
            _check_ramps(Path(stage.model), f"exits: model of {stage.name}")
    return ExitPromise(exits.risk, exits.confidence, exits.shadow)


def _check_ramps(model: Path, where: str) -> None:
    if not (model / RAMPS).is_file():
        raise BadInput(where, f"has no {RAMPS}", f"train ramps with `cascadia exits train {model}`")


def _digest(asked: Asked, folder: Path) -> str:
    """Digest of the spec and the files that it names."""
    digest = hashlib.sha256(asked.spec.model_dump_json().encode())
    for name in (asked.spec.latency, asked.spec.workload.trace):
        if name is not None:
            digest.update(named_path(folder, name).read_bytes())
    return digest.hexdigest()


def _rules(asked: Asked, folder: Path) -> WorkloadRules:
    """The trace, and the rate that it was played at."""
    told = asked.spec.workload
    digest = "" if told.trace is None else file_digest(named_path(folder, told.trace))
    return WorkloadRules(digest, told.rate_rps)


def _exit_notes(asked: Asked, stages: tuple[StagePlan, ...]) -> list[str]:
    """Word on exits that were offered, where none is used, and on what a plan leaves to others."""
    left = [] if asked.spec.exits is None else list(asked.spec.exits.notes)
    if not any(kind.exits for kind in asked.kinds) or any(stage.at is not None for stage in stages):
        return left
    return [
        *left,
        "no exit is used: the plan without is as good, or a worker's memory does not hold their passes too",
    ]


def _slower_notes(asked: Asked, chosen: Chosen) -> list[str]:
    """Word on how late answers are where engines are somewhat slower than measured, if that is too late."""
    wanted = asked.wanted
    slower = [
        replace(
            model,
            latency_s=tuple(SLOWER * each_s for each_s in model.latency_s),
            drawn_s=tuple(tuple(SLOWER * each_s for each_s in drawn_s) for drawn_s in model.drawn_s),
        )
        for model in chosen.group.models
    ]
    late = judged(chosen.policies, slower, wanted).outcome.late
    if late <= wanted.late_max:
        return []
    return [
        f"where batches take {SLOWER - 1:.0%} longer than measured, {late:.1%} are late ({wanted.late_max:.1%} may be);"
        " a smaller objective.latency_max_s than you need leaves room for that"
    ]


def _notes(chosen: Chosen, stages: tuple[StagePlan, ...]) -> list[str]:
    found = []
    idle = [stage for stage in stages if not stage.deployed]
    slow = [stage.name for stage in idle if stage.batch_s[0] > chosen.group.slo_s]
    if slow:
        found.append(
            f"not deployed: {', '.join(slow)}; one request alone takes longer than {chosen.group.slo_s:g} s"
        )
    if beaten := [stage.name for stage in idle if stage.name not in slow]:
        found.append(
            f"not deployed: {', '.join(beaten)}; other models are as accurate and faster, or a worker's memory "
            "holds no more"
        )
    if chosen.outcome.alarms:
        found.append(
            f"{chosen.outcome.alarms:,} decisions were at a load above the last policy's, which a router counts as "
            "alarms"
        )
    return found

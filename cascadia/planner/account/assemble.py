"""Assembly of the plan that is written down from the winning candidate: replicas, shares, thresholds,
predictions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cascadia.dispatch.seed import seed_of
from cascadia.domain.cluster import Cluster
from cascadia.domain.gear import Gear
from cascadia.domain.plan import (
    ASKS_NONE,
    FORMAT_VERSION,
    LEARNS,
    ForesightPlan,
    JudgePlan,
    LatencyLine,
    Mixture,
    Plan,
    Predicted,
    Proof,
    QualityPrediction,
    Quantiles,
    ReplicaGroup,
    StagePlan,
    StagePrediction,
)
from cascadia.domain.problem import Problem
from cascadia.domain.quality import ScoredBy
from cascadia.planner.account.verdicts import asked_of, reads_of
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.levels import level_predictions, metric_s, stage_tpot_s
from cascadia.planner.deployment.options import Mix
from cascadia.planner.deployment.simulation import quantile_s
from cascadia.planner.refinement.batch_tokens import engine_config
from cascadia_sim.cascade.cascade import CascadeRun
from cascadia_sim.cascade.stage import StageRun
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def assemble(
    problem: Problem,
    deployment: Deployment,
    thresholds: Sequence[float],
    *,
    predicted: Predicted,
    proof: Proof,
    wall_s: float,
    skip_below: Sequence[float] = (),
    mixture: Mixture | None = None,
) -> Plan:
    judge = problem.judge
    lengths, whole = problem.quality.mean_tokens, problem.quality.whole_tokens
    usual = float(lengths.mean() if whole is None else whole.mean())
    stages = tuple(
        StagePlan(
            stage.name,
            stage.model,
            stage.engine,
            quantization=stage.quantization,
            max_model_len=stage.max_model_len,
            replicas=_seeded(problem, s, deployment.mix(s)),
            config=engine_config(stage, deployment.mix(s)),
            output_ratio=float(lengths[s] / usual),
            weights=stage.weights,
            balancing=stage.balancing,
            external=stage.external if predicted.stages[s].reached > 0 else None,
            max_tokens=stage.max_tokens,
        )
        for s, stage in enumerate(problem.stages)
    )
    judge_length = judge.architecture.max_position if judge.architecture else 0
    config = judge.config or EngineConfig()
    scored_by = problem.quality.scored_by or ScoredBy()
    return Plan(
        version=FORMAT_VERSION,
        objective=problem.objective,
        cluster=_rented(problem.cluster, deployment),
        thresholds=tuple(thresholds),
        stages=stages,
        judge=JudgePlan(
            judge.kind,
            judge.placement,
            judge.model,
            engine=judge.engine,
            quantization=judge.quantization,
            max_model_len=config.max_model_len or judge_length,
            replicas=groups(deployment.judge),
            config=engine_config(judge, deployment.judge),
            prompt_tokens=judge.prompt_tokens,
            output_tokens=judge.output_tokens,
            latency_p50_s=judge.latency_p50_s,
            latency_p95_s=judge.latency_p95_s,
            usd_per_million_input_tokens=judge.usd_per_million_input_tokens,
            usd_per_million_output_tokens=judge.usd_per_million_output_tokens,
            weights=judge.weights,
            scale=scored_by.scale,
            prompt_version=scored_by.prompt_version,
            exits=judge.exits,
        ),
        predicted=predicted,
        gears=(_one_gear(predicted.rate_rps, stages, thresholds, skip_below),),
        proof=proof,
        workload=problem.rules,
        seed=problem.seed,
        digest=problem.digest,
        wall_s=wall_s,
        skip_below=tuple(skip_below),
        foresight=_foresight(problem, skip_below),
        mixture=mixture,
        under_load=problem.under_load,
    )


def _one_gear(
    rate_rps: float, stages: Sequence[StagePlan], thresholds: Sequence[float], skip_below: Sequence[float]
) -> Gear:
    """The plan's own setting, for any load."""
    never = [least >= ASKS_NONE for least in skip_below] or [False] * len(thresholds)
    asked = tuple(s.name for s, no in zip(stages, [*never, False], strict=True) if s.deployed and not no)
    return Gear(None, rate_rps, asked, tuple(thresholds), tuple(skip_below))


def _foresight(problem: Problem, skip_below: Sequence[float]) -> ForesightPlan | None:
    """Foresight that the plan heeds, where it heeds any."""
    told = problem.foresight
    return ForesightPlan(told.digest, told.latency_s) if told is not None and any(skip_below) else None


def groups(mix: Mix) -> tuple[ReplicaGroup, ...]:
    """Equal replicas together, with the share of the stage's requests that the group gets."""
    total = sum(r.count / r.level for r in mix)
    merged: dict[tuple[str, int, int], tuple[int, float]] = {}
    for r in mix:
        count, share = merged.get((r.shape.pool, r.shape.tp, r.shape.pp), (0, 0.0))
        key = (r.shape.pool, r.shape.tp, r.shape.pp)
        merged[key] = (count + r.count, share + r.count / r.level / total)
    drafts = {(r.shape.pool, r.shape.tp, r.shape.pp): drafts_by_batch(r.shape.timing) for r in mix}
    return tuple(
        ReplicaGroup(p, tp, pp, n, share, drafts=drafts[p, tp, pp])
        for (p, tp, pp), (n, share) in sorted(merged.items())
    )


def drafts_by_batch(timing: ReplicaTiming) -> tuple[tuple[int, int, int], ...]:
    """(from, to, tokens): how many are drafted while so many sequences decode; empty where none ever are."""
    counts = timing.draft_tokens[1:]
    if not counts.any():
        return ()
    ends = [*(np.flatnonzero(np.diff(counts)) + 1).tolist(), len(counts)]
    firsts = [1, *(end + 1 for end in ends[:-1])]
    return tuple((first, end, int(counts[end - 1])) for first, end in zip(firsts, ends, strict=True))


def _rented(cluster: Cluster, deployment: Deployment) -> Cluster:
    """The cluster, with what a plan under a budget takes of each pool."""
    if cluster.budget_usd_per_hour is None:
        return cluster
    return replace(cluster, pools=tuple(replace(p, rented=deployment.rented(p)) for p in cluster.pools))


def _seeded(problem: Problem, stage: int, mix: Mix) -> tuple[ReplicaGroup, ...]:
    """Groups of a stage, with the latency that a balancing which learns begins with."""
    found = groups(mix)
    if problem.stages[stage].balancing not in LEARNS:
        return found
    w = problem.workload
    lines = {
        (r.shape.pool, r.shape.tp, r.shape.pp): LatencyLine(
            *seed_of(r.shape.timing, w.input_tokens[stage], w.output_tokens[stage])
        )
        for r in mix
    }
    return tuple(replace(group, latency=lines[group.pool, group.tp, group.pp]) for group in found)


def predict(
    problem: Problem,
    run: CascadeRun,
    arrivals: Ints,
    *,
    usd_per_hour: float,
    stage_bound_s: float,
    quality: QualityPrediction,
    shares: Mapping[int, float],
    rate_rps: float | None = None,
) -> Predicted:
    """Predictions from one end-to-end simulation. `usd_per_hour` is of the GPUs, `shares` of capacity are by stage;
    `rate_rps` is the workload's where None.
    """
    latency = (run.finish_ps - arrivals) / PS_PER_S
    rate = problem.workload.rate_rps if rate_rps is None else rate_rps
    n = len(arrivals)
    elsewhere_usd = 3600.0 * rate * (verdict_usd(problem, run) + api_usd(problem, run)) / max(n, 1)
    usd_per_hour += elsewhere_usd
    stages = tuple(
        _stage_prediction(problem, run, s, n, rate, shares.get(s, 0.0)) for s in range(len(problem.stages))
    )
    return Predicted(
        e2e=quantiles(latency),
        ttft=quantiles((run.first_byte_ps - arrivals) / PS_PER_S),
        objective_s=quantile_s(latency, problem.objective.quantile),
        stage_bound_s=stage_bound_s,
        quality=quality,
        stages=stages,
        judge=_judge_prediction(problem, run, n, rate, shares.get(JUDGE)),
        rate_rps=rate,
        usd_per_hour=usd_per_hour,
        usd_per_1k_requests=usd_per_hour / 3.6 / rate if rate > 0 else 0.0,
        tpot=quantiles(metric_s(problem, run, "tpot")),
        levels=level_predictions(problem, run, problem.objective.bounds),
        usd_per_hour_elsewhere=elsewhere_usd,
        score_mean=float(problem.quality.score[run.answered_by, problem.workload.row].mean()) if n else None,
    )


def quantiles(latency_s: Floats) -> Quantiles:
    if len(latency_s) == 0:
        return Quantiles(0.0, 0.0, 0.0, 0.0)
    return Quantiles(float(latency_s.mean()), *(quantile_s(latency_s, q) for q in (0.5, 0.95, 0.99)))


def _stage_prediction(
    problem: Problem, run: CascadeRun, s: int, n: int, rate: float, load: float
) -> StagePrediction:
    name = problem.stages[s].name
    visits = next((v for v in run.stages if v.stage == s), None)
    if visits is None or len(visits.requests) == 0:
        nothing = quantiles(np.zeros(0))
        return StagePrediction(
            name,
            0.0,
            0.0,
            rate_rps=0.0,
            latency=nothing,
            ttft=nothing,
            utilisation=0.0,
            tokens_per_s=0.0,
            load=0.0,
            tpot=nothing,
        )
    w = problem.workload
    tokens = float((w.input_tokens[s] + w.output_tokens[s])[visits.requests].sum())
    return StagePrediction(
        name,
        reached=len(visits.requests) / n,
        accepted=float((run.answered_by == s).mean()),
        rate_rps=rate * len(visits.requests) / n,
        latency=quantiles((visits.run.finish_ps - visits.arrival_ps) / PS_PER_S),
        ttft=quantiles((visits.run.first_token_ps - visits.arrival_ps) / PS_PER_S),
        utilisation=_utilisation(visits.run),
        # By the rate as all else is: until the last of a trace has finished there is time in which nobody comes.
        tokens_per_s=rate * tokens / n,
        load=load,
        tpot=quantiles(stage_tpot_s(problem, visits)),
    )


def _judge_prediction(
    problem: Problem, run: CascadeRun, n: int, rate: float, load: float | None
) -> StagePrediction | None:
    verdicts = run.verdicts
    if verdicts is None or len(verdicts.requests) == 0:
        return None
    took = quantiles((verdicts.finish_ps - verdicts.arrival_ps) / PS_PER_S)
    asked = float(asked_of(problem, verdicts).sum())
    per_request = asked / n
    tokens = float(reads_of(problem, verdicts).sum()) + asked * problem.judge.output_tokens
    busy = _utilisation(verdicts.run) if verdicts.run is not None else 0.0
    return StagePrediction(
        "judge",
        per_request,
        0.0,
        rate_rps=rate * per_request,
        latency=took,
        ttft=took,
        utilisation=busy,
        tokens_per_s=rate * tokens / n,
        load=load,
    )


def _utilisation(run: StageRun) -> float:
    return float(run.busy_ps.max(initial=0)) / max(run.span_ps, 1)


def api_usd(problem: Problem, run: CascadeRun) -> float:
    """Dollars that stages elsewhere charge for all answers of the run."""
    w = problem.workload
    return sum(
        api.usd(
            float(w.input_tokens[v.stage][v.requests].sum()),
            float(w.output_tokens[v.stage][v.requests].sum()),
        )
        for v in run.stages
        if (api := problem.stages[v.stage].external) is not None
    )


def verdict_usd(problem: Problem, run: CascadeRun) -> float:
    """Dollars that an external judge charges for all verdicts of the run."""
    judge = problem.judge
    if judge.placement != "external" or run.verdicts is None:
        return 0.0
    usd = float(reads_of(problem, run.verdicts).sum()) * judge.usd_per_million_input_tokens
    wrote = float(asked_of(problem, run.verdicts).sum()) * judge.output_tokens
    return (usd + wrote * judge.usd_per_million_output_tokens) / 1e6

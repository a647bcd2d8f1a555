"""A plan as the page is told of it: figures and sentences, what else was tried, and the stops of its sliders."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cascadia.domain.plan import Plan
from cascadia.domain.problem import Problem
from cascadia.planner.account.assemble import groups
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.plan import PlanResult
from cascadia.planner.refinement.refine import Candidate
from cascadia.planner.sensitivity.nearby import Sensitivity
from cascadia.planner.stability.certificate import OVERLOADED
from cascadia.report import words
from cascadia.report.data import ReportData
from cascadia.report.html import tiles
from cascadia.report.limits import limits
from cascadia.report.names import devices, model_label, printable, replicas
from cascadia.report.numbers import figures, lower_bound, percent, score, seconds, usd

MOST_TRIED = 400


def told(result: PlanResult, around: Sensitivity, data: ReportData) -> dict[str, Any]:
    plan = result.plan
    return {
        "headline": f"{words.headline(plan, data.gpu_names)}.",
        "command": data.command,
        "goal": plan.objective.goal,
        "within": plan.objective.within,
        "quantile": words.quantile_name(plan),
        "rate_rps": plan.predicted.rate_rps,
        "bounds": bounds(result.search.problem),
        "worth": worth(plan),
        "tiles": [tile._asdict() for tile in tiles(data)],
        "facts": [dict(zip(("name", "text", "value", "better"), fact, strict=True)) for fact in facts(plan)],
        "limits": [limit._asdict() for limit in limits(data)],
        "tried": tried(result, around),
        "tried_all": len(result.candidates),
        "rates": _rates(plan, around),
        "notes": list(result.notes),
    }


def bounds(problem: Problem) -> dict[str, Any]:
    """Bounds that the plan was to keep, and its rate; None where nothing is asked."""
    objective, cluster = problem.objective, problem.cluster
    return {
        "rate_rps": problem.workload.rate_rps,
        "quality": objective.quality_min,
        "latency_s": objective.latency_max_s,
        "usd_per_hour": cluster.budget_usd_per_hour,
        "gpus": {pool.name: pool.gpus for pool in cluster.pools},
    }


def worth(plan: Plan) -> dict[str, Any]:
    """The plan's figures beside its bounds; of `goal` less is better, and `slack` of it is given away for dollars."""
    predicted, objective = plan.predicted, plan.objective
    goals = {
        "latency": predicted.objective_s,
        "cost": predicted.usd_per_hour,
        "quality": -predicted.quality.lower,
        "rate": -predicted.rate_rps,
    }
    return {
        "goal": goals[objective.goal],
        "slack": objective.within if objective.goal == "latency" else 0.0,
        "quality": predicted.quality.lower,
        "latency_s": predicted.objective_s,
        "usd_per_hour": predicted.usd_per_hour,
        "gpus": plan.gpus_by_pool(),
    }


def facts(plan: Plan) -> Iterable[tuple[str, str, float | None, str]]:
    """Name, text, number and which of two numbers is better (`low`, `high`, or none) of what two plans differ in."""
    predicted, name = plan.predicted, words.quantile_name(plan)
    per_hour = predicted.usd_per_hour
    yield "Quality, at least", lower_bound(predicted.quality.lower), predicted.quality.lower, "high"
    yield f"Latency {name}", seconds(predicted.objective_s), predicted.objective_s, "low"
    yield "Latency p50", seconds(predicted.e2e.p50_s), predicted.e2e.p50_s, "low"
    yield "First token p95", seconds(predicted.ttft.p95_s), predicted.ttft.p95_s, "low"
    yield "Cost an hour", usd(per_hour), per_hour, "low"
    per_1k = predicted.usd_per_1k_requests
    yield "Cost per 1,000 requests", usd(per_1k), per_1k, "low"
    yield devices(plan.cluster.pools), f"{plan.gpus:,}", float(plan.gpus), "low"
    yield "Rate", f"{figures(predicted.rate_rps)}/s", predicted.rate_rps, "high"
    if plan.headroom is not None:
        carried = plan.headroom * predicted.rate_rps
        yield "Carries", f"{figures(carried, 2)}/s", carried, "high"
    for stage, seen in words.deployed(plan):
        limit = words.threshold_words(words.limits(plan, stage.name))
        where = replicas(stage.replicas, plan.cluster) if stage.replicas else "elsewhere"
        text = f"{where}; answers {percent(seen.accepted)}; {limit}"
        yield f"{printable(stage.name)} ({model_label(stage.model)})", text, None, ""
    if plan.judge.replicas:
        yield "judge", replicas(plan.judge.replicas, plan.cluster), None, ""


def tried(result: PlanResult, around: Sensitivity) -> list[dict[str, Any]]:
    """Deployments that the search simulated, less those that another beats in quality, latency, cost and GPUs."""
    bars = (bar.best for bar in around.bars if bar.best is not None)
    seen = {c.deployment.key: c for c in (*result.candidates, *bars, result.chosen) if _may_hold(c)}
    found = list(seen.values())
    if not found:
        return []
    table = np.array([(-c.quality_lower, c.latency_s, c.usd_per_hour, c.deployment.gpus) for c in found])
    kept = [c for c, row in zip(found, table, strict=True) if c is result.chosen or not _beaten(row, table)]
    kept.sort(key=lambda c: (c is not result.chosen, c.latency_s))
    return [_point(result, c) for c in kept[:MOST_TRIED]]


def _may_hold(c: Candidate) -> bool:
    refused = c.certificate is not None and not c.certificate.holds
    return not refused and c.load <= OVERLOADED and bool(np.isfinite(c.latency_s))


def _beaten(row: np.ndarray, table: np.ndarray) -> bool:
    return bool(((table <= row).all(axis=1) & (table < row).any(axis=1)).any())


def _point(result: PlanResult, c: Candidate) -> dict[str, Any]:
    problem, chosen = result.search.problem, c.deployment.key == result.chosen.deployment.key
    pools = {pool.name: c.deployment.gpus_of(pool.name) for pool in problem.cluster.pools}
    thresholds = result.search.routings.thresholds[c.deployment.routing].tolist()
    names = [stage.name for stage in problem.stages]
    stages = [
        f"{'judge' if s == JUDGE else printable(names[s])} {replicas(groups(mix), problem.cluster)}"
        + (
            f" (score ≥ {score(thresholds[s])})"
            if 0 <= s < len(thresholds) and 0 < thresholds[s] <= 100
            else ""
        )
        for s, mix in sorted(c.deployment.mixes, key=lambda mix: mix[0] % (len(names) + 1))
    ]
    return {
        "quality": c.quality_lower,
        "latency_s": c.latency_s,
        "usd_per_hour": c.usd_per_hour,
        "gpus": pools,
        "stages": stages,
        "chosen": chosen,
    }


def _rates(plan: Plan, around: Sensitivity) -> list[Sequence[float]]:
    """Rate, p50, p95 and p99 of this plan at other rates; None beyond what it carries."""
    rates = around.rates.multiplier * plan.predicted.rate_rps
    columns: list[Sequence[float]] = np.column_stack([rates, around.rates.quantiles_s.T]).tolist()
    return columns

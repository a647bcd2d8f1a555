"""Data of a plan's report, gathered from its search."""

import numpy as np
from numpy.typing import NDArray

from cascadia import __version__
from cascadia.planner.baselines.other_bars import Bar
from cascadia.planner.deployment.measures import (
    ATTAINMENT,
    attainment,
    latencies_s,
    queues,
    stage_latencies_s,
    window_means,
    windows,
)
from cascadia.planner.deployment.simulation import quantile_s
from cascadia.planner.gears.ladder import Goals
from cascadia.planner.plan import PlanResult
from cascadia.planner.sensitivity.knee import knee
from cascadia.planner.sensitivity.nearby import Sensitivity, sensitivity_of
from cascadia.planner.sensitivity.renting import renting
from cascadia.report.data import (
    AttainmentCurve,
    FrontierPoint,
    KneePoint,
    LatencySamples,
    LoadOverTime,
    QualityStep,
    QueueLength,
    RateSensitivity,
    Renting,
    ReportData,
    Swing,
    Worth,
)
from cascadia_sim.cascade.cascade import CascadeRun

Floats = NDArray[np.float64]


def report_data(
    result: PlanResult, *, spec_name: str, command: str, date: str, around: Sensitivity | None = None
) -> ReportData:
    """`around`: the plan's surroundings, where they are known already."""
    problem = result.search.problem
    around = around or sensitivity_of(result)
    latency = latencies_s(result.run)
    return ReportData(
        plan=result.plan,
        notes=result.notes,
        spec_name=spec_name,
        command=command,
        version=__version__,
        date=date,
        latency=LatencySamples(latency, stage_latencies_s(problem, result.run)),
        queues=tuple(
            QueueLength(q.name, q.time_s, q.waiting, q.peak, q.peak_s) for q in queues(problem, result.run)
        ),
        frontier=_frontier(result, around),
        knee=tuple(
            KneePoint(p.usd_per_hour, p.latency_s, p.gpus, p.replicas, p.chosen, p.fastest)
            for p in knee(result)
        ),
        attainment=(
            _curve("Cascadia", latency, around.slo_base_s, chosen=True),
            *(_curve(r.name, r.latency_s, around.slo_base_s) for r in around.rivals),
        ),
        slo_base_s=around.slo_base_s,
        rate_sensitivity=RateSensitivity(around.rates.multiplier, *around.rates.quantiles_s),
        quality_sensitivity=tuple(_step(result, bar) for bar in around.bars),
        swing=_swing(result),
        renting=_renting(result),
        tokens_per_request=_tokens_per_request(result),
    )


def _renting(result: PlanResult) -> Renting | None:
    found = renting(result)
    if found is None:
        return None
    worths = tuple(Worth(w.stage, w.pool, w.requests_per_usd, w.by_size) for w in found.worths)
    return Renting(worths, tuple((c.rate_rps, c.usd_per_hour) for c in found.costs))


def _tokens_per_request(result: PlanResult) -> float:
    """Tokens of a prompt and of the answer that its client gets, on average."""
    workload, by = result.simulator.problem.workload, result.run.answered_by
    every = np.arange(len(by)) % len(workload)
    return float((workload.input_tokens[by, every] + workload.output_tokens[by, every]).mean())


def _swing(result: PlanResult) -> Swing | None:
    """The trace on the plan's gears and on its own setting; None where there are no gears."""
    if result.ladder is None or result.alone is None:
        return None
    ladder, own = result.ladder, result.chosen.deployment.routing
    gear, own_s = ladder.played.gear, quantile_s(latencies_s(result.alone), result.plan.objective.quantile)
    bound_s = Goals.of(result.search.problem, own_s).bound_s
    found = windows(result.run, bound_s)
    return Swing(
        time_s=found.time_s,
        rate_rps=found.rate_rps,
        gear=window_means(result.run, gear.astype(float)),
        switches=int(np.count_nonzero(np.diff(gear))),
        bound_s=bound_s,
        on_gears=_load(result.run, bound_s, ladder.quality_lower),
        alone=_load(result.alone, bound_s, float(result.search.routings.lower[own])),
    )


def _load(run: CascadeRun, bound_s: float, quality_lower: float) -> LoadOverTime:
    found = windows(run, bound_s)
    late_share = float(np.mean(latencies_s(run) > bound_s))
    return LoadOverTime(found.in_flight, found.late, late_share, quality_lower)


def _frontier(result: PlanResult, around: Sensitivity) -> tuple[FrontierPoint, ...]:
    """The plan, the best at other bars, what the search simulated on the way, and the other systems."""
    predicted = result.plan.predicted
    routings = result.search.routings
    chosen = FrontierPoint(
        predicted.quality.mean,
        predicted.quality.lower,
        predicted.objective_s,
        predicted.usd_per_1k_requests,
        label="this plan",
        chosen=True,
    )
    simulated = [
        *(c for c in result.candidates if c is not result.chosen),
        *(bar.best for bar in around.bars if bar.best is not None and bar.best is not result.chosen),
    ]
    points = [
        FrontierPoint(
            float(routings.mean[c.deployment.routing]),
            c.quality_lower,
            c.latency_s,
            _usd_per_1k(result, c.usd_per_hour),
        )
        for c in simulated
    ]
    rivals = [
        FrontierPoint(
            r.quality_mean,
            r.quality_lower,
            r.quantile_s,
            _usd_per_1k(result, r.usd_per_hour),
            r.name,
            baseline=True,
        )
        for r in around.rivals
    ]
    return (chosen, *points, *rivals)


def _usd_per_1k(result: PlanResult, usd_per_hour: float) -> float:
    return usd_per_hour / 3.6 / max(result.plan.predicted.rate_rps, 1e-9)


def _curve(name: str, latency_s: Floats, base_s: float, *, chosen: bool = False) -> AttainmentCurve:
    curve = attainment(latency_s)
    at = quantile_s(latency_s, ATTAINMENT) / base_s
    return AttainmentCurve(name, curve.limit_s / base_s, curve.share, at, chosen)


def _step(result: PlanResult, bar: Bar) -> QualityStep:
    names = [stage.name for stage in result.search.problem.stages]
    if bar.best is None:
        return QualityStep(bar.quality_min, float("nan"), {}, float("nan"))
    mixes = dict(bar.best.deployment.mixes)
    gpus = {
        (names[s] if s >= 0 else "judge"): sum(r.shape.gpus * r.count for r in mix)
        for s, mix in mixes.items()
    }
    return QualityStep(bar.quality_min, bar.best.latency_s, gpus, _usd_per_1k(result, bar.best.usd_per_hour))

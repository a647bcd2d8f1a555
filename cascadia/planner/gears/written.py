"""A ladder as the plan has it: gears with their settings and what is expected of each."""

from dataclasses import replace
from itertools import zip_longest

import numpy as np

from cascadia.domain.gear import Gear, GearPrediction
from cascadia.domain.plan import QualityPrediction
from cascadia.domain.problem import Problem
from cascadia.domain.workload import Floats
from cascadia.planner.deployment.simulation import quantile_s
from cascadia.planner.gears.ladder import FoundLadder
from cascadia.planner.routing.routings import mean_score
from cascadia.planner.search import elsewhere
from cascadia.planner.search.context import Search

INDEPENDENT = "weighed over gears, if load and difficulty are independent"


def gears(search: Search, problem: Problem, found: FoundLadder, bound_s: float) -> tuple[Gear, ...]:
    """The heaviest first. `problem` has the requests that were played."""
    predictions = _predictions(search, problem, found, bound_s)
    borders = zip_longest(found.ladder.borders, found.rates_rps)
    return tuple(
        _gear(search, k, border, rate, prediction)
        for k, (border, rate), prediction in zip(
            found.routings, (*borders, (None, None)), predictions, strict=True
        )
    )


def _gear(
    search: Search, routing: int, border: float | None, rate: float | None, predicted: GearPrediction
) -> Gear:
    routings, names = search.routings, [stage.name for stage in search.problem.stages]
    foresees = search.problem.quality.foreseen is not None and routings.skip_below is not None
    skips = routings.skip_below[routing].tolist() if foresees and routings.skip_below is not None else ()
    return Gear(
        border,
        rate,
        tuple(name for name, asked in zip(names, routings.deployed[routing].tolist(), strict=True) if asked),
        tuple(routings.thresholds[routing].tolist()),
        tuple(skips),
        predicted=predicted,
    )


def _predictions(
    search: Search, problem: Problem, found: FoundLadder, bound_s: float
) -> list[GearPrediction]:
    gear, latency = found.played.gear, found.played.latency_s
    times = _time_shares(found.played.run.arrival_ps.astype(np.float64), gear, len(found.routings))
    told = [
        _prediction(search, k, float(times[g]), latency[gear == g], len(gear), bound_s)
        for g, k in enumerate(found.routings)
    ]
    if not elsewhere.charges(problem):
        return told
    by, hourly = found.played.decided, problem.workload.rate_rps * elsewhere.HOUR_S
    return [
        replace(
            of_gear,
            usd_per_1k_elsewhere=1000
            * elsewhere.usd_an_hour(problem, by.reached & (gear == g), by.judged)
            / max(hourly * of_gear.request_share, 1e-12),
        )
        for g, of_gear in enumerate(told)
    ]


def _prediction(
    search: Search, routing: int, time_share: float, latency: Floats, requests: int, bound_s: float
) -> GearPrediction:
    return GearPrediction(
        time_share,
        len(latency) / requests,
        float(search.routings.mean[routing]),
        quality_lower=float(search.routings.lower[routing]),
        p50_s=quantile_s(latency, 0.5),
        p95_s=quantile_s(latency, 0.95),
        p99_s=quantile_s(latency, 0.99),
        late=float((latency > bound_s).mean()) if len(latency) else 0.0,
    )


def _time_shares(arrival: Floats, gear: "np.ndarray[tuple[int], np.dtype[np.int64]]", gears: int) -> Floats:
    """Shares of time: of that between arrivals, each stretch counts for the gear that the request before it
    got.
    """
    spent = np.bincount(gear[:-1], weights=np.diff(arrival), minlength=gears)
    return np.asarray(spent / max(float(spent.sum()), 1e-12))


def mixed_quality(search: Search, found: FoundLadder, alone: QualityPrediction) -> QualityPrediction:
    """Quality of all requests together: each gear's bound holds at once with all others', so their mean,
    weighed by requests, bounds the mixture where questions are no harder or easier when load is high.
    """
    gear, of = found.played.gear, list(found.routings)
    share = np.bincount(gear, minlength=len(of)) / len(gear)
    return QualityPrediction(
        float(share @ search.routings.mean[of]),
        float(share @ search.routings.lower[of]),
        alone.confidence,
        f"{alone.method}; {INDEPENDENT}",
        alone.questions,
        float(share @ [mean_score(search.problem.quality, search.routings, k) for k in of]),
    )

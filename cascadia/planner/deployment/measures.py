"""Measures of a simulated run, as plain numbers for tables and plots."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.problem import Problem
from cascadia_sim.cascade.cascade import CascadeRun
from cascadia_sim.engine.results import over_time
from cascadia_sim.iteration.timing import PS_PER_S

Floats = NDArray[np.float64]

ATTAINMENT_POINTS = 160
ATTAINMENT = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """Requests in a stage that have no token yet, (k) at `time_s` (k)."""

    name: str
    time_s: Floats
    waiting: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Attainment:
    """Share (0-1) of requests done within each `limit_s`."""

    limit_s: Floats
    share: Floats


def latencies_s(run: CascadeRun) -> Floats:
    latency: Floats = run.latency_ps / PS_PER_S
    return latency


def stage_latencies_s(problem: Problem, run: CascadeRun) -> Mapping[str, Floats]:
    return {
        problem.stages[v.stage].name: (v.run.finish_ps - v.arrival_ps) / PS_PER_S
        for v in run.stages
        if len(v.requests)
    }


def queues(problem: Problem, run: CascadeRun, points: int = 160) -> tuple[Waiting, ...]:
    """Queues per stage, and for a judge with GPUs."""
    found = []
    for visits in run.stages:
        seen = over_time(visits.arrival_ps, visits.run.first_token_ps, points)
        found.append(Waiting(problem.stages[visits.stage].name, seen.at_s, seen.count.astype(float)))
    if run.verdicts is not None and run.verdicts.run is not None:
        seen = over_time(run.verdicts.arrival_ps, run.verdicts.run.first_token_ps, points)
        found.append(Waiting("judge", seen.at_s, seen.count.astype(float)))
    return tuple(found)


def attainment(latency_s: Floats, points: int = ATTAINMENT_POINTS) -> Attainment:
    """The attainment curve from the fastest request to a little beyond the slowest."""
    ordered = np.sort(latency_s)
    limits = np.geomspace(max(float(ordered[0]), 1e-3), max(float(ordered[-1]), 2e-3) * 1.05, points)
    return Attainment(limits, np.searchsorted(ordered, limits, side="right") / len(ordered))

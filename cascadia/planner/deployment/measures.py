"""Measures of a simulated run, as plain numbers for tables and plots."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.problem import Problem
from cascadia_sim.cascade.cascade import CascadeRun
from cascadia_sim.engine.results import over_time, present
from cascadia_sim.iteration.timing import PS_PER_S

Floats = NDArray[np.float64]

ATTAINMENT_POINTS = 160
ATTAINMENT = 0.95
WINDOWS, IN_A_WINDOW = 120, 10
"""At most so many windows, of so many requests on average."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """A run in k equal windows of its arrivals, the middle of each at `time_s` (k).

    `in_flight` (k) is counted there. `late` (k), 0-1, is of those that arrive in the window; NaN where nobody does.
    """

    time_s: Floats
    rate_rps: Floats
    in_flight: Floats
    late: Floats


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


def windows(run: CascadeRun, bound_s: float, most: int = WINDOWS) -> Windows:
    """`late` is whoever takes longer than `bound_s`."""
    edges = _edges(run, most)
    middle_s = (edges[1:] + edges[:-1]) / 2
    count, _ = np.histogram(run.arrival_ps / PS_PER_S, edges)
    there = present(run.arrival_ps, run.finish_ps, np.rint(middle_s * PS_PER_S).astype(np.int64))
    late = window_means(run, (latencies_s(run) > bound_s).astype(float), most)
    return Windows(middle_s, count / np.diff(edges), there.astype(float), late)


def window_means(run: CascadeRun, values: Floats, most: int = WINDOWS) -> Floats:
    """Means (k) of `values` (n), one a request, over those that arrive in each of the run's windows; NaN: nobody."""
    arrival_s, edges = run.arrival_ps / PS_PER_S, _edges(run, most)
    count, _ = np.histogram(arrival_s, edges)
    total, _ = np.histogram(arrival_s, edges, weights=values)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _edges(run: CascadeRun, most: int) -> Floats:
    arrival_s = run.arrival_ps / PS_PER_S
    many = int(np.clip(len(arrival_s) // IN_A_WINDOW, 1, most))
    return np.linspace(float(arrival_s.min()), float(arrival_s.max()), many + 1)


def attainment(latency_s: Floats, points: int = ATTAINMENT_POINTS) -> Attainment:
    """The attainment curve from the fastest request to a little beyond the slowest."""
    ordered = np.sort(latency_s)
    limits = np.geomspace(max(float(ordered[0]), 1e-3), max(float(ordered[-1]), 2e-3) * 1.05, points)
    return Attainment(limits, np.searchsorted(ordered, limits, side="right") / len(ordered))

"""Measures of a simulated run, as plain numbers for tables and plots."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.problem import Problem
from cascadia_sim.cascade.cascade import CascadeRun
from cascadia_sim.engine.results import present
from cascadia_sim.iteration.timing import PS_PER_S

Floats = NDArray[np.float64]

ATTAINMENT_POINTS = 160
ATTAINMENT = 0.95
WINDOWS, IN_A_WINDOW = 120, 10
"""At most so many windows, of so many requests on average."""


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """Requests in a stage that have no token yet: means (k) over equal windows, the middle of each at `time_s` (k), and
    the most at once, `peak` at `peak_s`.
    """

    name: str
    time_s: Floats
    waiting: Floats
    peak: int
    peak_s: float


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


def queues(problem: Problem, run: CascadeRun, points: int = 80) -> tuple[Waiting, ...]:
    """Queues per stage that is asked, and for a judge with GPUs."""
    found = [(problem.stages[v.stage].name, v.arrival_ps, v.run.first_token_ps) for v in run.stages]
    if run.verdicts is not None and run.verdicts.run is not None:
        found.append(("judge", run.verdicts.arrival_ps, run.verdicts.run.first_token_ps))
    return tuple(
        waiting(name, begins / PS_PER_S, ends / PS_PER_S, points)
        for name, begins, ends in found
        if begins.size
    )


def waiting(name: str, begins_s: Floats, ends_s: Floats, points: int) -> Waiting:
    """The queue of requests that wait from `begins_s` (n) to `ends_s` (n). Means are exact: the area under the number
    that waits, by window."""
    edges = np.linspace(float(begins_s.min()), float(ends_s.max()), points + 1)
    area = _area(np.sort(begins_s), edges) - _area(np.sort(ends_s), edges)
    at_s = np.concatenate([ends_s, begins_s])
    order = np.argsort(at_s, kind="stable")
    inside = np.cumsum(np.repeat([-1, 1], begins_s.size)[order])
    most = int(np.argmax(inside))
    return Waiting(
        name,
        (edges[1:] + edges[:-1]) / 2,
        np.maximum(np.diff(area), 0.0) / max(float(edges[1] - edges[0]), 1e-12),
        max(int(inside[most]), 0),
        float(at_s[order][most]),
    )


def _area(at_s: Floats, edges: Floats) -> Floats:
    """Seconds since each of `at_s` (n, increasing) that is over at each of `edges` (k), added up (k)."""
    before = np.searchsorted(at_s, edges)
    area: Floats = before * edges - np.concatenate([[0.0], np.cumsum(at_s)])[before]
    return area


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

"""Lateness of each candidate at each level of load, simulated on the deployment's own replicas.

A level is a steady Poisson stream at its rate, of the trace's requests in their order, the same for all candidates.
What its fullest stage cannot carry is not simulated, and neither is what lies below a level at which nothing is late.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.problem import Problem
from cascadia.domain.workload import Floats, Workload
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.gears.candidates import Candidates
from cascadia.planner.gears.levels import Level
from cascadia.planner.routing.routings import requests_decided
from cascadia.planner.search.context import Search
from cascadia.planner.stability.certificate import OVERLOADED

Ints = NDArray[np.int64]

LATENCIES = 8
"""A level is simulated for so many of the deployment's mean latencies..."""
FEWEST, MOST = 800, 4_000
"""...of at least and at most so many requests."""
WARMING = 0.25
"""Of these, the first part only fills the replicas."""

NONE_LATE = 1e-3
"""At fewer than this nothing is late at calmer levels either."""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """`late` (K, L), 0-1; above it, where all are late at a level that no request meets, how many times its capacity a
    candidate is sent. `in_flight` (K, L): the mean number of requests under way, inf where it grows for ever."""

    late: Floats
    in_flight: Floats


def measured(
    search: Search,
    deployment: Deployment,
    candidates: Candidates,
    levels: Sequence[Level],
    bound_s: float,
    latency_s: float,
) -> Measured:
    """`latency_s`: about what the deployment takes a request, from which it is told how long to simulate."""
    problem = search.problem
    streams = [_stream(problem, level.rate_rps, latency_s) for level in levels]
    mean_rps = problem.workload.rate_rps

    def one(k: int) -> tuple[Floats, Floats]:
        late, under_way = np.ones(len(levels)), np.full(len(levels), np.inf)
        took_s = None
        for at in range(len(levels) - 1, -1, -1):
            rate = levels[at].rate_rps
            if (sent := candidates.work[k] * rate / mean_rps) > OVERLOADED:
                if not levels[at].request_share:
                    late[at] = sent
                continue
            if took_s is None or late[at + 1] > NONE_LATE:
                late[at], took_s = _at(search, streams[at], deployment, int(candidates.routings[k]), bound_s)
            else:
                late[at] = 0.0
            under_way[at] = rate * took_s
        return late, under_way

    found = list(search.threads.map(one, range(len(candidates))))
    return Measured(np.array([late for late, _ in found]), np.array([n for _, n in found]))


def _at(
    search: Search, stream: Simulator, deployment: Deployment, routing: int, bound_s: float
) -> tuple[float, float]:
    """The share that is late, and the mean latency, when it is warm."""
    decided = requests_decided(search.problem.quality, stream.problem.workload.row, search.routings, routing)
    latency = stream.latency_s(stream.run(deployment, decided))
    settled = latency[int(WARMING * len(latency)) :]
    return float((settled > bound_s).mean()), float(settled.mean())


def _stream(problem: Problem, rate_rps: float, latency_s: float) -> Simulator:
    """The trace's requests, or a stretch of them, as a Poisson stream."""
    w = problem.workload
    count = int(min(max(LATENCIES * rate_rps * latency_s, FEWEST), MOST, len(w)))
    start = (len(w) - count) // 2
    part = slice(start, start + count)
    # The same gaps at each rate, so that levels differ by their load and not by luck.
    gaps = np.random.default_rng(problem.seed).exponential(size=count)
    arrival_s = (np.cumsum(gaps) - gaps[0]) / rate_rps
    workload = Workload(
        arrival_s,
        w.row[part],
        w.input_tokens[:, part],
        w.output_tokens[:, part],
        w.prefix_tokens[part],
        None if w.blocks is None else w.blocks.part(start, start + count),
        drawn=None if w.drawn is None else w.drawn[:, part],
    )
    return Simulator.of(replace(problem, workload=workload))

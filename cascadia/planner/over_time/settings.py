"""A deployment on the whole trace, each request by one of several settings; and what comes of it."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.workload import Floats
from cascadia.planner.deployment.deployment import Deployment
from cascadia.planner.deployment.simulation import Simulator, quantile_s
from cascadia.planner.gears.played import Decided, by_gear
from cascadia.planner.routing.routings import Decisions
from cascadia.planner.search import elsewhere
from cascadia.planner.search.context import Search
from cascadia_sim.cascade.cascade import CascadeRun
from cascadia_sim.iteration.timing import PS_PER_S

Ints = NDArray[np.int64]

POINTS = 0.05
"""Qualities that differ by less are equal."""


@dataclass(frozen=True, slots=True, eq=False)
class OverTime:
    """Outcome of a system on the trace. `late` (0-1) of the requests are over the bound on latency.

    `quality` is the mean over the requests, of the answers that they get. `setting` (n) is the routing of each request.
    `usd_per_hour` is the mean over the trace, `gpus` the most at a time. `tuned` says which point of the grid it is.
    """

    name: str
    late: float
    quality: float
    _: KW_ONLY
    p50_s: float
    p95_s: float
    gpus: int
    usd_per_hour: float
    switches: int
    setting: Ints
    latency_s: Floats
    tuned: str = ""


@dataclass(eq=False)
class Stage:
    """The trace, and everything that has been decided on it so far."""

    search: Search
    simulator: Simulator
    bound_s: float

    def __post_init__(self) -> None:
        self.decided = Decided(self.search.routings, self.simulator)

    def run(
        self, deployment: Deployment, routings: Sequence[int], chosen: Ints
    ) -> tuple[CascadeRun, Decisions]:
        """`chosen` (n) is the place among `routings` of each request's."""
        together = by_gear([self.decided(k) for k in routings], chosen)
        return self.simulator.run(deployment, together), together

    def outcome(
        self, name: str, deployment: Deployment, routings: Sequence[int], chosen: Ints, tuned: str = ""
    ) -> OverTime:
        run, together = self.run(deployment, routings, chosen)
        latency_s: Floats = run.latency_ps / PS_PER_S
        problem = self.simulator.problem
        rows = problem.workload.row
        quality = problem.quality.quality[together.answered_by, rows]
        return OverTime(
            name,
            float((latency_s > self.bound_s).mean()),
            float(quality.mean()),
            p50_s=quantile_s(latency_s, 0.5),
            p95_s=quantile_s(latency_s, 0.95),
            gpus=deployment.gpus,
            usd_per_hour=deployment.usd_per_hour
            + elsewhere.usd_an_hour(problem, together.reached, together.judged),
            switches=int((np.diff(chosen) != 0).sum()),
            setting=np.array(routings, np.int64)[chosen],
            latency_s=latency_s,
            tuned=tuned,
        )

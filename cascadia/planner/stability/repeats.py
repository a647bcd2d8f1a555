"""A problem whose trace is played several times end to end, as fast as it is or faster."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.problem import Problem
from cascadia.domain.workload import Workload
from cascadia.planner.deployment.simulation import Simulator
from cascadia.planner.routing.routings import Decisions
from cascadia.planner.tables.loads import period_ps
from cascadia_sim.cascade.elsewhere import Elsewhere
from cascadia_sim.cascade.first_stage import FirstRuns
from cascadia_sim.engine.requests import picoseconds
from cascadia_sim.iteration.timing import PS_PER_S

Ints = NDArray[np.int64]

MAX_SPAN_S = 45 * 86_400
"""The simulator's clock (int64 picoseconds) ends after 106 days: a trace is played twice within it, and its last
requests need time."""


def repeated(simulator: Simulator, times: int, factor: float = 1.0) -> Simulator:
    """The same requests `times` times, each round one mean gap after the one before, at `factor` times the rate.

    A request meets the same judge's delay in every round.
    """
    if times == 1 and factor == 1.0:
        return simulator
    problem = at_rate(problem_repeated(simulator.problem, times), factor)
    delays = None if simulator.delays is None else np.tile(simulator.delays, times)
    arrivals = picoseconds(problem.workload.arrival_s)
    apis = tuple(None if api is None else _tiled(api, times) for api in simulator.apis)
    # Each is run hardly more than once: to keep a run is to read all of its requests.
    cached, none_kept = np.tile(simulator.cached, times), FirstRuns(most_requests=0)
    return Simulator(problem, arrivals, cached, delays, apis, simulator.lines, first_runs=none_kept)


def _tiled(api: Elsewhere, times: int) -> Elsewhere:
    return Elsewhere(np.tile(api.first_ps, times), np.tile(api.whole_ps, times), api.per_minute)


def problem_repeated(problem: Problem, times: int) -> Problem:
    w = problem.workload
    starts_s = np.arange(times) * period_ps(problem) / PS_PER_S
    return replace(
        problem,
        workload=Workload(
            (w.arrival_s[None, :] + starts_s[:, None]).ravel(),
            np.tile(w.row, times),
            np.tile(w.input_tokens, times),
            np.tile(w.output_tokens, times),
            np.tile(w.prefix_tokens, times),
            None if w.blocks is None else w.blocks.repeated(times),
            drawn=None if w.drawn is None else np.tile(w.drawn, times),
            told_by_table=w.told_by_table,
        ),
    )


def at_rate(problem: Problem, factor: float) -> Problem:
    """The same requests, `factor` times as fast."""
    if factor == 1.0:
        return problem
    w = problem.workload
    return replace(problem, workload=replace(w, arrival_s=w.arrival_s / factor))


def slowest(problem: Problem) -> float:
    """The least factor of the rate at which simulated time is enough for the requests."""
    return float(problem.workload.arrival_s[-1]) / MAX_SPAN_S


def decided_repeated(decided: Decisions, times: int) -> Decisions:
    return Decisions(*(np.tile(of_all, times) for of_all in decided))

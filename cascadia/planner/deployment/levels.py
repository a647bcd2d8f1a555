"""Service levels of a simulated run: TTFT, TPOT and end to end of each request, as its client sees them.

Behind a gate nothing leaves before the verdict, and then all of the answer does: so a held answer has its verdict's
time as TTFT and a TPOT of 0. An answer that is not judged streams: its TTFT ends with its first token, wherever the
request has been before.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.objective import Level, Metric
from cascadia.domain.plan import LevelPrediction
from cascadia.domain.problem import Problem
from cascadia.planner.deployment.simulation import quantile_s
from cascadia_sim.cascade.cascade import CascadeRun, StageVisits
from cascadia_sim.iteration.timing import PS_PER_S

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def metric_s(problem: Problem, run: CascadeRun, metric: Metric) -> Floats:
    """Seconds (n) of each of the run's requests, which are `problem`'s."""
    if metric == "ttft":
        return np.asarray((run.first_byte_ps - run.arrival_ps) / PS_PER_S)
    if metric == "e2e":
        return np.asarray(run.latency_ps / PS_PER_S)
    every = np.arange(len(run.arrival_ps))
    return tpot_s(run.first_byte_ps, run.finish_ps, problem.workload.output_tokens[run.answered_by, every])


def stage_tpot_s(problem: Problem, visits: StageVisits) -> Floats:
    """Seconds (m) per output token of a stage's answers, held or not."""
    tokens = problem.workload.output_tokens[visits.stage, visits.requests]
    return tpot_s(visits.run.first_token_ps, visits.run.finish_ps, tokens)


def tpot_s(first_ps: Ints, finish_ps: Ints, output_tokens: Ints) -> Floats:
    """Time per output token after the first; 0 where there is no second."""
    spread_s = (finish_ps - first_ps) / PS_PER_S
    return np.where(output_tokens > 1, spread_s / np.maximum(output_tokens - 1, 1), 0.0)


def reached_s(problem: Problem, run: CascadeRun, levels: Sequence[Level]) -> tuple[float, ...]:
    """Seconds of each level's metric at its quantile."""
    return tuple(quantile_s(metric_s(problem, run, each.metric), each.quantile) for each in levels)


def level_predictions(
    problem: Problem, run: CascadeRun, levels: Sequence[Level]
) -> tuple[LevelPrediction, ...]:
    found = []
    for level in levels:
        took_s = metric_s(problem, run, level.metric)
        attained = float((took_s <= level.max_s).mean()) if len(took_s) else 1.0
        reached = quantile_s(took_s, level.quantile)
        found.append(LevelPrediction(level.metric, level.quantile, level.max_s, reached, attained))
    return tuple(found)

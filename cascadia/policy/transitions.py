"""Transitions of one worker's queue when requests are dealt in turn to K workers (RAMSIS section 4.4, figure 4).

A worker gets every K-th arrival. What the past tells of the next is the *phase*: how many arrivals the others have had
since its own last one. Its first request after an action begins the phase anew, whatever it was. So equation 2 splits:

    P[(n', T_j') | (n, T_j), a] = sum over phases r of  phase[n, j, r] * first[a, r, j'] * count[j', n']

`phase` is what the n queued requests and the age of the earliest (interval A) tell; `first` is where the first request
after the action falls (intervals B and C); `count` is how many follow it until the action ends (interval D). `count` is
a mean over the ages that a step of slack holds. The mass beyond the longest queue is the full state's (equation 3), and
an empty queue waits for the next request, whose slack is the whole time (equation 1).
"""

from dataclasses import dataclass

import numpy as np

from cascadia.domain.workload import Floats
from cascadia.policy.problem import Problem

NODES = 5
"""Ages within a step of slack over which a mean is taken."""


@dataclass(frozen=True, slots=True, eq=False)
class Transitions:
    """Arrays by model m, queued n - 1, step of slack j and phase r, 0 to K - 1; phase K is 0 just after an arrival.

    `latency_s` (m, n): of the whole queue as one batch; infinite where it is longer than the models' batches.
    `first` (m, n, r, j), and `none` (m, n, r): no request joins until the batch is done. `count` (j, n), `full` (j).
    `phase` (n, j, r). `wait_s` (m, n, r): mean time for which the worker then waits for one, none in the other cases.
    `idle_s` (r): the same where nothing is served before.
    """

    latency_s: Floats
    first: Floats
    none: Floats
    wait_s: Floats
    count: Floats
    full: Floats
    phase: Floats
    idle_s: Floats


def transitions(problem: Problem) -> Transitions:
    """All that does not depend on the policy."""
    most, workers = problem.queued_max, problem.workers
    latency_s = np.full((len(problem.models), most), np.inf)
    for row, model in zip(latency_s, problem.models, strict=True):
        row[: len(model.latency_s)] = model.latency_s[:most]
    first, none, wait_s = _first(problem, latency_s)
    count, full, phase = _counts(problem)
    idle_s = (workers - np.append(np.arange(workers), 0)) / problem.arrivals.rate_rps
    return Transitions(
        latency_s, first, none, wait_s=wait_s, count=count, full=full, phase=phase, idle_s=idle_s
    )


def _first(problem: Problem, latency_s: Floats) -> tuple[Floats, Floats, Floats]:
    """Place of the first request after an action, by the slack that it has left when the action ends; or that there
    is none, and the mean wait for it: each of the K - r arrivals that it takes, as far as it is still to come.

    Of an action that takes l, slack from T_j on belongs to arrivals from l + T_j - SLO on; only the model that is
    fastest with so many is ever late, so of the others no action longer than the SLO is needed.
    """
    workers, slack_s = problem.workers, problem.slack_s
    fastest = np.argmin(latency_s, axis=0) == np.arange(len(latency_s))[:, None]
    needed = np.isfinite(latency_s) & (fastest | (latency_s <= problem.slo_s))
    lasts_s = latency_s[needed][:, None]
    edges = np.clip(lasts_s - problem.slo_s + slack_s, 0.0, lasts_s)
    edges[:, 0] = 0.0
    edges = np.concatenate([edges, lasts_s], axis=1)
    by = _by(problem, edges, after=False)
    # A queue of one whole slack is served just as its request arrives.
    alone = np.nonzero(needed)[1] == 0
    own = by[:, :, :1].copy()
    own[alone] = _by(problem, edges[alone], after=True)[:, :, :1]
    by = np.concatenate([by, own], axis=2).swapaxes(1, 2)
    missing = np.cumsum(1 - by[:, -2::-1, -1], axis=1)[:, ::-1] / problem.arrivals.rate_rps
    missing = np.concatenate([missing, missing[:, :1]], axis=1)
    first = np.zeros((*latency_s.shape, workers + 1, len(slack_s)))
    none = np.ones((*latency_s.shape, workers + 1))
    first[needed] = np.diff(by, axis=2)
    none[needed] = 1 - by[:, :, -1]
    wait_s = np.zeros(none.shape)
    wait_s[needed] = missing
    return first, none, wait_s


def _by(problem: Problem, times_s: Floats, *, after: bool) -> Floats:
    """Chance that a worker's next request has come by each of the times (a, e), by phase r: the (K - r)-th arrival."""
    by = problem.arrivals.at_least(times_s.ravel(), problem.workers, after=after)
    by = by.reshape(*times_s.shape, problem.workers + 1)
    return by[:, :, :0:-1]


def _counts(problem: Problem) -> tuple[Floats, Floats, Floats]:
    """Requests that a worker has queued when the first of them has waited as long as a step of slack says, and the
    phase then."""
    most, workers, slack_s = problem.queued_max, problem.workers, problem.slack_s
    above_s = np.append(slack_s[1:], problem.slo_s)
    within = (np.arange(NODES) + 0.5) / NODES
    ages_s = problem.slo_s - (slack_s[:, None] + within * (above_s - slack_s)[:, None])
    by = problem.arrivals.at_least(ages_s.ravel(), most * workers, after=True).reshape(
        len(slack_s), NODES, -1
    )
    by = by.mean(axis=1)
    full = by[:, most * workers]
    exactly = (by[:, :-1] - by[:, 1:]).reshape(len(slack_s), most, workers)
    count = exactly.sum(axis=2)
    # A state that never is has any phase; even chances keep its rows summing to one.
    even = np.full(workers, 1 / workers)
    phase = np.where(count[:, :, None] > 1e-12, exactly / np.maximum(count, 1e-12)[:, :, None], even)
    phase = np.concatenate([phase, np.zeros((*count.shape, 1))], axis=2).swapaxes(0, 1)
    phase[0, -1] = np.eye(workers + 1)[workers]
    return count, full, phase

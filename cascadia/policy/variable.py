"""Variable batching: any part of the queue, the earliest of it, may be a batch (RAMSIS section 4.3.2).

States are those of `problem.py`, actions a model and a batch b of the n queued. With b = n the queue begins anew, as
`transitions.py` says. Otherwise n - b stay, of which the first has the slack of the queue's request b + 1: of n - 1
arrivals in the age of the earliest, the place of the b-th is beta distributed where arrivals are Poisson, and with K
workers dealt to in turn it is the K b-th of K times as many. What joins while the batch is served is counted by the
phase that n and the age tell. So values are needed of all states, and one linear system of as many evaluates a policy.

What stays and its slack are told apart by nothing but (n, T_j), as in the paper: what was decided before says more, and
is left out. Late requests are served (`late: serve`).
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, gammaln

from cascadia.domain.policy import PolicyExpectation
from cascadia.domain.workload import Floats, Ints
from cascadia.policy.one_thread import on_one_thread
from cascadia.policy.problem import Problem
from cascadia.policy.solve import ROUNDS, STRAY, Bools, Solution, bounded
from cascadia.policy.transitions import Transitions, transitions

NOT_YET = -1e18
SLACK_STEPS = 40
MOST_QUEUED = 48
"""A longer queue, of larger batches, has too many states."""
LEAST_QUEUED = 24
"""The queue is followed so far, where so many can be in time one batch after the other."""


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """`stays` (n, b, j, s): slack step of request b + 1 of n queued, b from 1, by the first's step. `joins` (m, b, r,
    k): chance that k join from phase r on while b are served. `moves` (m, b, s, j): step of who had slack s, then."""

    stays: Floats
    joins: Floats
    moves: Floats


def variable_problem(problem: Problem) -> Problem:
    """`problem` with a queue that may be longer than a batch. Raises ValueError where that has too many states."""
    carried = int(problem.slo_s * max(model.throughput_rps(problem.slo_s) for model in problem.models)) + 1
    queued_max = max(problem.queued_max, min(carried, LEAST_QUEUED))
    if queued_max > MOST_QUEUED:
        raise ValueError(f"a queue of {queued_max} is longer than variable batching is solved for")
    return replace(problem, queued_max=queued_max)


@on_one_thread
def solve_variable(problem: Problem, late_max: float | None = None) -> Solution:
    """A policy as of `solve`, where a batch may be any part of the queue. Raises ValueError for `late: drop`."""
    if problem.late == "drop":
        raise ValueError("variable batching is solved for where late requests are served")
    kernel = transitions(problem)
    parts = _parts(problem, kernel)
    allowed, served = _choices(problem, kernel)
    return bounded(
        lambda bonus, start: _iterate(problem, kernel, parts, (allowed, served), bonus, start), late_max
    )


def _parts(problem: Problem, kernel: Transitions) -> _Parts:
    most, workers, slack_s = problem.queued_max, problem.workers, problem.slack_s
    steps = len(slack_s)
    edges = np.append(slack_s[1:], problem.slo_s)
    ages_s = np.maximum(problem.slo_s - (slack_s + edges) / 2, 1e-12)
    past = kernel.phase[:, :, :workers] @ np.arange(workers)
    # Of n others, and what the other workers had since, within the age: where is the b-th?
    stays = np.zeros((most, most, steps, steps))
    for n in range(1, most):
        b = np.arange(1, n + 1)[:, None, None]
        after = np.clip((problem.slo_s - slack_s[None, None, :]) / ages_s[None, :, None], 0.0, 1.0)
        # Chance that it has waited no longer, of the age, and so has no less than this slack.
        sooner = betainc(workers * (n - b) + past[n][None, :, None] + 1, workers * b, after)
        none = np.zeros((n, steps, 1))
        stays[n, :n] = -np.diff(np.concatenate([sooner, none], axis=2), axis=2)
    joins = np.zeros((len(problem.models), most, workers, most + 1))
    moves = np.zeros((len(problem.models), most, steps, steps))
    for m, model in enumerate(problem.models):
        for size, lasts_s in enumerate(model.latency_s[:most]):
            joins[m, size] = _joining(problem.arrivals.rate_rps * lasts_s, workers, most)
            moves[m, size] = _moved(slack_s, lasts_s)
    return _Parts(stays, joins, moves)


def _joining(mean: float, workers: int, most: int) -> Floats:
    """Every K-th of a Poisson number with this mean, by phase; the last is for all that are more."""
    k = np.arange((most + 1) * workers)
    # In logarithms: powers and factorials overflow from 170 arrivals on.
    chance = np.exp(k * np.log(max(mean, 1e-300)) - mean - gammaln(k + 1))
    found = np.zeros((workers, most + 1))
    for phase in range(workers):
        own = (k + phase) // workers
        found[phase] = np.bincount(np.minimum(own, most), chance, most + 1)
    found[:, most] += np.maximum(1.0 - found.sum(axis=1), 0.0)
    return found


def _moved(slack_s: Floats, lasts_s: float) -> Floats:
    """Share of each step of slack that is within each, so much later; what has none is in the first."""
    below, above = slack_s - lasts_s, np.append(slack_s[1:], slack_s[-1] + 1e-9) - lasts_s
    edges = np.append(slack_s[1:], np.inf)
    floor = np.append(-np.inf, slack_s[1:])
    inside = np.minimum(above[:, None], edges) - np.maximum(below[:, None], floor)
    moved: Floats = np.maximum(inside, 0.0) / (above - below)[:, None]
    return moved


def _choices(problem: Problem, kernel: Transitions) -> tuple[Bools, Ints]:
    """Choices by queued n - 1, step j, model m and batch b - 1: whether one is allowed, and how many are in time."""
    most, steps = problem.queued_max, len(problem.slack_s)
    size = np.arange(1, most + 1)
    in_time = kernel.latency_s[None, :, :] <= problem.slack_s[:, None, None] + 1e-12
    possible = in_time.copy()
    # Where nothing is in time any part goes to the model that is fastest with so many.
    fastest = np.argmin(kernel.latency_s, axis=0) == np.arange(len(kernel.latency_s))[:, None]
    possible[~in_time.any(axis=(1, 2))] = fastest & np.isfinite(kernel.latency_s)
    some = size[None, :] <= size[:, None]
    allowed: Bools = possible[None] & some[:, None, None, :]
    return allowed, np.broadcast_to(in_time * size, (most, steps, *in_time.shape[1:]))


def _iterate(
    problem: Problem,
    kernel: Transitions,
    parts: _Parts,
    choices: tuple[Bools, Ints],
    bonus: float,
    start: Solution | None,
) -> Solution:
    allowed, served = choices
    accuracy = np.array([model.accuracy for model in problem.models])
    lasts_s = np.where(np.isfinite(kernel.latency_s), kernel.latency_s, 0.0)
    earns = served * (accuracy + bonus)[:, None]
    flat = allowed.reshape(*allowed.shape[:2], -1)
    if start is None:
        action = np.where(flat, earns.reshape(flat.shape), NOT_YET).argmax(axis=2)
    else:
        action = start.action * allowed.shape[3] + start.size - 1
    value, gain, passed = _value(problem, kernel, parts, served, action, bonus)
    rounds = 1
    while rounds < ROUNDS:
        q = earns - gain * lasts_s + _to_come(kernel, parts, value, gain)
        q = np.where(flat, q.reshape(flat.shape), NOT_YET)
        held = np.take_along_axis(q, action[:, :, None], axis=2)[:, :, 0]
        better = q.max(axis=2) > held + 1e-9 * (1 + np.abs(held))
        rounds += 1
        if not better.any():
            break
        action = np.where(better, q.argmax(axis=2), action)
        value, gain, passed = _value(problem, kernel, parts, served, action, bonus)
    expected = _expected(problem, served, action, passed)
    model, size = np.divmod(action, allowed.shape[3])
    return Solution(problem, model, size + 1, expected, bonus, rounds)


def _to_come(kernel: Transitions, parts: _Parts, value: Floats, gain: float) -> Floats:
    """The value after each action, by (n, j, m, b)."""
    most, steps = value.shape
    models = len(parts.joins)
    found = np.zeros((most, steps, models, most))
    # The queue begins anew: by the slack of its first.
    anew = (kernel.count.T * value).sum(axis=0) + kernel.full * value[-1, 0]
    ahead = kernel.first @ anew + kernel.none * anew[-1] - gain * kernel.wait_s
    whole = np.einsum("njr,mnr->njm", kernel.phase, ahead)
    found[np.arange(most), :, :, np.arange(most)] = whole
    padded = np.concatenate([value, np.full((most + 1, steps), value[-1, 0])])
    for m in range(models):
        for b in range(most - 1):
            if not parts.joins[m, b].any():
                continue
            later = padded @ parts.moves[m, b].T
            later[most:] = value[-1, 0]
            left = np.arange(most - b - 1)[:, None] + np.arange(most + 1)
            joined = np.einsum("rk,cks->crs", parts.joins[m, b], later[np.minimum(left, most)])
            by_slack = kernel.phase[b + 1 :, :, :-1] @ joined
            found[b + 1 :, :, m, b] = (parts.stays[b + 1 :, b] * by_slack).sum(axis=2)
    return found


class _Passed(NamedTuple):
    """`chances` (states, states) from each state to each, and the seconds (n, j) until then, under a policy."""

    chances: Floats
    time_s: Floats


def _value(
    problem: Problem, kernel: Transitions, parts: _Parts, served: Ints, action: Ints, bonus: float
) -> tuple[Floats, float, _Passed]:
    """Relative values of all states, the gain in a second, and the chances behind them."""
    most, steps = action.shape
    model, size = np.divmod(action, served.shape[3])
    chances, waits_s = _mix(kernel, parts, model, size)
    time_s = kernel.latency_s[model, size] + waits_s
    good, right = _answered(problem, served, action)
    begin = steps - 1  # one request, of the whole slack
    system = np.eye(most * steps) - chances
    system[:, begin] = time_s.ravel()
    solved = np.asarray(np.linalg.solve(system, (right + bonus * good).ravel()), np.float64)
    gain = float(solved[begin])
    solved[begin] = 0.0
    return solved.reshape(most, steps), gain, _Passed(chances, time_s)


def _answered(problem: Problem, served: Ints, action: Ints) -> tuple[Ints, Floats]:
    """Requests in time by state, and their accuracy."""
    model, size = np.divmod(action, served.shape[3])
    n, j = np.indices(action.shape)
    good = served[n, j, model, size]
    return good, good * np.array([each.accuracy for each in problem.models])[model]


def _expected(problem: Problem, served: Ints, action: Ints, passed: _Passed) -> PolicyExpectation:
    """Expectation of the policy that takes `action`."""
    most, steps = action.shape
    good, right = _answered(problem, served, action)
    balance = np.eye(most * steps) - passed.chances.T
    balance[-1] = 1.0
    visits = np.linalg.solve(balance, np.eye(most * steps)[-1])
    ok, correct = float(visits @ good.ravel()), float(visits @ right.ravel())
    arrived = problem.arrivals.rate_rps / problem.workers * float(visits @ passed.time_s.ravel())
    mean, late = correct / ok if ok > 0 else 0.0, min(max(1 - ok / arrived, 0.0), 1.0)
    full = max(float(visits[(most - 1) * steps]), 0.0)
    return PolicyExpectation(mean, late, reward=mean * (1 - late), full=full)


def _mix(kernel: Transitions, parts: _Parts, model: Ints, size: Ints) -> tuple[Floats, Floats]:
    """Chances from each state to each under a policy, and the mean wait."""
    most, steps = model.shape
    mix = np.zeros((most, steps, most, steps))
    waits_s = np.zeros((most, steps))
    for n in range(most):
        for j in range(steps):
            m, b = model[n, j], size[n, j]
            if b == n:
                phase = kernel.phase[n, j]
                ahead = phase @ kernel.first[m, n]
                ahead[-1] += phase @ kernel.none[m, n]
                mix[n, j] = kernel.count.T * ahead
                mix[n, j, -1, 0] += ahead @ kernel.full
                waits_s[n, j] = phase @ kernel.wait_s[m, n]
            else:
                slack = parts.stays[n, b, j] @ parts.moves[m, b]
                stay = n - b - 1
                fits = most - stay
                joins = kernel.phase[n, j, :-1] @ parts.joins[m, b]
                mix[n, j, stay:] = joins[:fits, None] * slack
                mix[n, j, -1, 0] += joins[fits:].sum()
    states = most * steps
    return (1 - STRAY) * mix.reshape(states, states) + STRAY / states, waits_s

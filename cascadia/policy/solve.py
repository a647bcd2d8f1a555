"""The best policy of one worker: an average-reward semi-Markov decision process, solved exactly.

States and actions: `problem.py`; transitions: `transitions.py`. An action on n requests takes the batch's latency and
earns n times the model's accuracy where the earliest is in time, else nothing (RAMSIS section 4.1, by request instead
of by batch). What is sought is the most that can be earned in the long run in a time, and so for each request, since
these come at a fixed rate.

Since a queue's past matters only through the first request of the next queue, relative values are needed by its slack
alone: v[j] of the step j it falls in, v = 0 for the queue of one whole slack, with which every busy time begins. One
round of policy iteration (Howard) evaluates a policy by that small linear system, then takes in each state the action
of the most value. It stops when none changes; a round costs one pass over the transitions.

A bonus on each request that is answered in time is, in the long run, a multiplier on lateness: raising it bounds the
share that is late.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.policy import Policy, PolicyExpectation, PolicyRow
from cascadia.domain.workload import Floats, Ints
from cascadia.policy.one_thread import on_one_thread
from cascadia.policy.problem import Problem
from cascadia.policy.transitions import Transitions, transitions

Bools = NDArray[np.bool_]

ROUNDS = 100
BONUSES = 8
"""Bonuses tried where a bound on lateness is asked for: 0.25 to 4,096 times the accuracies' range."""
BONUS_STEPS = 7
NOT_YET = -1e18
STRAY = 1e-7
"""Chance that a queue's first request has any slack instead: joins what a policy keeps apart, as where a worker that is
dealt to very evenly always, or never, finds its queue empty. It changes a value by less than 1e-4 points."""


class Choices(NamedTuple):
    """Possible actions by queued n - 1, step j and model m: what is answered in time, and whether it is allowed.

    `served` (n, j, m): requests in time. `drops` (n, j): nothing can be in time, and all are refused.
    `size` (n, j, m): the batch, n but where a part is dropped.
    """

    allowed: Bools
    served: Ints
    size: Ints
    drops: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """`action` (n, j): the model, -1 where the queue is refused; `rounds` of policy iteration."""

    problem: Problem
    action: Ints
    size: Ints
    expected: PolicyExpectation
    bonus: float
    rounds: int

    def policy(self) -> Policy:
        """The table that is looked up while serving."""
        rate_rps = self.problem.arrivals.rate_rps
        return Policy(rate_rps, tuple(self._row(n) for n in range(self.problem.queued_max)), self.expected)

    def _row(self, n: int) -> PolicyRow:
        action, size = self.action[n], self.size[n]
        # Of a part that still can be in time the rest was counted as lost: served later, it would delay others.
        rest = (action >= 0) & (size <= n)
        if (action < 0).any():
            # What can no longer be in time is refused before the table is asked; it says what stands above that.
            least = int(np.argmax(action >= 0))
            action = np.where(action < 0, action[least], action)
            size = np.where(self.action[n] < 0, size[least], size)
            rest = np.where(self.action[n] < 0, rest[least], rest)
        new = np.append(True, (np.diff(action) != 0) | (np.diff(size) != 0))
        names = self.problem.names
        return PolicyRow(
            tuple(float(slack_s) for slack_s in self.problem.slack_s[new]),
            tuple(names[m] for m in action[new]),
            tuple(int(b) for b in size[new]),
            tuple(bool(each) for each in rest[new]) if self.problem.late == "drop" and rest.any() else (),
        )


@on_one_thread
def solve(problem: Problem, late_max: float | None = None) -> Solution:
    """The policy of the most expected reward; with `late_max` (0-1) of those expected to be late no more often, the
    one that the least bonus gives, or the least late where none is.
    """
    kernel = transitions(problem)
    choices = _choices(problem, kernel)
    return bounded(
        lambda bonus, start: _iterate(problem, kernel, choices, bonus, start.action if start else None),
        late_max,
    )


def bounded(solved: Callable[[float, Solution | None], Solution], late_max: float | None) -> Solution:
    """The best of what is `solved` with some bonus, from a solution before, that is late no more often."""
    plain = solved(0.0, None)
    if late_max is None or plain.expected.late <= late_max:
        return plain
    low, high, best = 0.0, 0.0, plain
    for bonus in 25.0 * 4.0 ** np.arange(BONUSES):
        tried = solved(float(bonus), best)
        if tried.expected.late < best.expected.late:
            best = tried
        high = float(bonus)
        if tried.expected.late <= late_max:
            break
        low = high
    if best.expected.late > late_max:
        return best
    for _ in range(BONUS_STEPS):
        middle = (low + high) / 2
        tried = solved(middle, best)
        if tried.expected.late <= late_max:
            high, best = middle, tried
        else:
            low = middle
    return best


def _choices(problem: Problem, kernel: Transitions) -> Choices:
    most = kernel.latency_s.shape[1]
    queued = np.arange(1, most + 1)
    # 1e-12: a batch that takes the slack to the last digit is in time.
    in_time: Bools = np.less_equal(kernel.latency_s.T[:, None, :], problem.slack_s[None, :, None] + 1e-12)
    size = np.broadcast_to(queued[:, None, None], in_time.shape).copy()
    none: Bools = np.logical_not(in_time.any(axis=2))
    allowed, drops = in_time.copy(), np.zeros(none.shape, bool)
    if problem.late == "serve":
        # By length of the queue: what is fastest with one request may carry less than comes, and never catch up.
        fastest = np.argmin(kernel.latency_s, axis=0)
        allowed |= none[:, :, None] & (fastest[:, None, None] == np.arange(len(kernel.latency_s)))
        return Choices(allowed, np.where(in_time, size, 0), size, drops)
    # The largest part that each model still answers in time; the rest is counted as lost.
    fits = np.stack(
        [np.searchsorted(row, problem.slack_s + 1e-12, side="right") for row in kernel.latency_s], axis=1
    )
    part = np.minimum(fits[None, :, :], queued[:, None, None])
    size = np.where(none[:, :, None], part, size)
    allowed |= none[:, :, None] & (part > 0)
    drops = none & ~(part > 0).any(axis=2)
    return Choices(allowed, np.where(allowed, size, 0), size, drops)


class _Value(NamedTuple):
    """`means` by the slack of the first request: seconds, answers in time, and their accuracy."""

    relative: Floats
    gain: float
    mix: Floats
    means: tuple[Floats, Floats, Floats]


def _iterate(
    problem: Problem, kernel: Transitions, choices: Choices, bonus: float, start: Ints | None
) -> Solution:
    accuracy = np.array([model.accuracy for model in problem.models])
    earns = choices.served * (accuracy + bonus)
    size = np.maximum(choices.size, 1) - 1
    model = np.arange(len(accuracy))
    lasts_s = kernel.latency_s[model, size]
    action = _greedy(choices, np.where(choices.allowed, earns, NOT_YET)) if start is None else start
    value = _value(problem, kernel, choices, action, bonus)
    rounds = 1
    while rounds < ROUNDS:
        to_come = kernel.first @ value.relative - value.gain * kernel.wait_s
        q = np.matmul(kernel.phase, to_come.transpose(1, 2, 0))
        if problem.late == "drop":
            n, j, m = np.nonzero(choices.allowed & (size != np.arange(size.shape[0])[:, None, None]))
            q[n, j, m] = (kernel.phase[n, j] * to_come[m, size[n, j, m]]).sum(axis=1)
        q = np.where(
            choices.allowed, q + earns - value.gain * np.where(np.isfinite(lasts_s), lasts_s, 0.0), NOT_YET
        )
        # The action in force stays unless another is better by more than rounding.
        held = np.take_along_axis(q, np.maximum(action, 0)[:, :, None], axis=2)[:, :, 0]
        best = _greedy(choices, q)
        better = q.max(axis=2) > held + 1e-9 * (1 + np.abs(held))
        changed = np.where(better, best, action)
        rounds += 1
        if np.array_equal(changed, action):
            break
        action = changed
        value = _value(problem, kernel, choices, action, bonus)
    batch = np.take_along_axis(choices.size, np.maximum(action, 0)[:, :, None], axis=2)[:, :, 0]
    return Solution(problem, action, batch, _expected(problem, kernel, value), bonus, rounds)


def _greedy(choices: Choices, worth: Floats) -> Ints:
    return np.where(choices.drops, -1, np.argmax(worth, axis=2))


def _value(problem: Problem, kernel: Transitions, choices: Choices, action: Ints, bonus: float) -> _Value:
    """Relative values by the slack of the first request, and the gain in a second."""
    most, steps = action.shape
    start = steps - 1
    accuracy = np.array([model.accuracy for model in problem.models])
    taken = np.maximum(action, 0)
    n, j = np.indices(action.shape)
    size = np.maximum(choices.size[n, j, taken], 1) - 1
    in_time = np.where(action < 0, 0, choices.served[n, j, taken])
    lasts_s = np.where(action < 0, 0.0, kernel.latency_s[taken, size])
    # Chances of the next queue's first request, by state; in the last column those of an empty queue, after which it
    # begins with the whole slack.
    ahead = np.empty((most, steps, steps))
    waits_s = np.empty(action.shape)
    for m in range(len(accuracy)):
        for b in range(most):
            rows, columns = np.nonzero((taken == m) & (size == b) & (action >= 0))
            if len(rows):
                phase = kernel.phase[rows, columns]
                ahead[rows, columns] = phase @ kernel.first[m, b]
                ahead[rows, columns, start] += phase @ kernel.none[m, b]
                waits_s[rows, columns] = phase @ kernel.wait_s[m, b]
    refused = action < 0
    ahead[refused] = np.eye(steps)[start]
    waits_s[refused] = kernel.phase[refused] @ kernel.idle_s
    reach = kernel.count.T.copy()  # (n, j): of a queue whose first request has slack j, how long it is
    full = kernel.full
    mix = np.einsum("nj,njk->jk", reach, ahead) + full[:, None] * ahead[most - 1, 0]
    mix = (1 - STRAY) * mix + STRAY / steps

    def per_state(x: Floats | Ints) -> Floats:
        """Mean over the queues whose first request has slack j; the full queue is the longest without slack."""
        mean: Floats = (reach * x).sum(axis=0) + full * x[most - 1, 0]
        return mean

    time_s = per_state(lasts_s + waits_s)
    good, right = per_state(in_time), per_state(in_time * accuracy[taken])
    # v = reward - gain * time + mix v, with v = 0 at the whole slack: its column makes place for the gain.
    system = np.eye(steps) - mix
    system[:, start] = time_s
    solved = np.linalg.solve(system, right + bonus * good)
    gain = float(solved[start])
    relative = solved.copy()
    relative[start] = 0.0
    return _Value(relative, gain, mix, (time_s, good, right))


def _expected(problem: Problem, kernel: Transitions, value: _Value) -> PolicyExpectation:
    """Expectation of the policy that `value` is of."""
    time_s, good, right = value.means
    visits = _stationary(value.mix)
    arrived = problem.arrivals.rate_rps / problem.workers * float(visits @ time_s)
    ok, correct = float(visits @ good), float(visits @ right)
    # Two sums of many small chances: their ratio may be above one in the last digits.
    mean, late = correct / ok if ok > 0 else 0.0, min(max(1 - ok / arrived, 0.0), 1.0)
    return PolicyExpectation(mean, late, reward=mean * (1 - late), full=max(float(visits @ kernel.full), 0.0))


def _stationary(mix: Floats) -> Floats:
    steps = len(mix)
    system = np.eye(steps) - mix.T
    # One balance follows from the others; in its place the chances sum to one.
    system[-1] = 1.0
    right = np.zeros(steps)
    right[-1] = 1.0
    return np.asarray(np.linalg.solve(system, right), np.float64)

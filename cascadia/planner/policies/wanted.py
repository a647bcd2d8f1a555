"""Demands on policies: the traffic, how late and how right answers may be, and which outcome is the better."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from math import ceil
from typing import Literal, NamedTuple

import numpy as np

from cascadia.domain.policy import WINDOW_S, Policies
from cascadia.domain.workload import Floats
from cascadia.planner.policies.in_flight import worth
from cascadia.planner.policies.played import Outcome, outcome, run_of
from cascadia.planner.policies.sustained import SETTLES
from cascadia.policy.problem import ModelProfile
from cascadia_sim.batch.simulate import BatchRun, WorkerKind

BUSIEST = 0.999
"""Policies are solved for loads up to this quantile of the traffic's own, and somewhat beyond."""
BEYOND = 1.1
ROUNDS, GROWS = 8, 1 / 16
"""Traffic in which waiting grows by this share of the deadline is played so often, one after the other: what is a
little too much is late only in the end."""
LEAST_S, LEAST_SLOS = 10.0, 40.0
"""Traffic that is planned on lasts so many seconds, and times for an answer, or too much of it would pass unseen."""
MOST = 10_000_000
"""Requests of a verdict, or twice the traffic where that is more."""
ROUNDING = 1e-9
"""Points that a mean of many equal accuracies may be off in its last digits."""


class Merit(NamedTuple):
    """Rank of an outcome, greater is better: what keeps the objective comes before what is worth more."""

    keeps: bool
    worth: float


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """Traffic (`arrival_s`, n, not decreasing) and what must hold on it: answers within `slo_s` but for `late_max`
    (0-1), with at least `accuracy_min` (0-100) in the mean; None: as much as all workers give.

    `unseen_s`: further traffic of the same kind, by which policies that were made on the first are judged; None: there
    is no other.
    """

    arrival_s: Floats
    _: KW_ONLY
    slo_s: float
    late_max: float
    accuracy_min: float | None
    late: Literal["serve", "drop"] = "serve"
    variable: bool = False
    """Policies that take a part of the queue are solved for too, on few workers."""
    unseen_s: Floats | None = None

    @property
    def judged_s(self) -> Floats:
        """The traffic of the verdict."""
        return self.arrival_s if self.unseen_s is None else self.unseen_s

    @property
    def rate_rps(self) -> float:
        """Mean rate."""
        return (len(self.judged_s) - 1) / float(self.judged_s[-1] - self.judged_s[0])

    @property
    def served_rps(self) -> float:
        """The least rate at which all can be served in time: what comes at the end has its deadline's time still."""
        return len(self.judged_s) / (float(self.judged_s[-1] - self.judged_s[0]) + self.slo_s)

    @property
    def least_rps(self) -> float:
        """The least rate at which what counts can be served in time, but for what may be late."""
        counted = 1 - self.skip / len(self.judged_s)
        return self.served_rps * counted * (1 - self.late_max)

    @property
    def skip(self) -> int:
        """Requests at the start of the verdict that are not counted."""
        return settling(self.judged_s)

    @property
    def right_min(self) -> float:
        """The mean that keeps `accuracy_min`: below any where none is asked for."""
        return (self.accuracy_min or 0.0) - ROUNDING

    def merit(self, outcome: Outcome) -> Merit:
        return Merit(keeps(outcome, self), worth([outcome], [1.0], self.late_max, self.right_min))


class Verdict(NamedTuple):
    """The run that the verdict is by, and its requests."""

    run: BatchRun
    arrival_s: Floats
    outcome: Outcome


def judged(
    policies: Policies, models: Sequence[ModelProfile], wanted: Wanted, others: Sequence[WorkerKind] = ()
) -> Verdict:
    """The traffic of the verdict on `policies` (`others`: as in `play`), or its repeats where waiting grows on it."""
    arrival_s = wanted.judged_s
    run = run_of(policies, models, arrival_s, others)
    if _grows(run.latency_s[wanted.skip :], wanted.slo_s):
        arrival_s = repeated(arrival_s, min(ROUNDS, max(MOST // len(arrival_s), 2)))
        run = run_of(policies, models, arrival_s, others)
    return Verdict(run, arrival_s, outcome(policies, models, run, wanted.skip))


def _grows(latency_s: Floats, slo_s: float) -> bool:
    known = latency_s[np.isfinite(latency_s)]
    part = len(known) // 4
    return part > 0 and float(known[-part:].mean() - known[:part].mean()) > GROWS * slo_s


def repeated(arrival_s: Floats, rounds: int) -> Floats:
    """So many rounds of the traffic, one after the other, from 0 on."""
    begins_s = arrival_s - arrival_s[0]
    period_s = float(begins_s[-1]) * len(arrival_s) / (len(arrival_s) - 1)
    return np.asarray((np.arange(rounds)[:, None] * period_s + begins_s).ravel())


def lasts_s(slo_s: float) -> float:
    """How long traffic lasts at least that is planned on."""
    return max(LEAST_S, LEAST_SLOS * slo_s)


def long_enough(arrival_s: Floats, slo_s: float) -> tuple[Floats, int]:
    """A trace from 0 on, so many rounds of it that it lasts `lasts_s`, and how many.

    What waits at the end of a trace has all the time there is: a short one would hide that too much comes.
    """
    begins_s = np.asarray(arrival_s, np.float64) - arrival_s[0]
    rounds = max(min(ceil(lasts_s(slo_s) / begins_s[-1]), MOST // len(begins_s)), 1)
    return (begins_s, 1) if rounds == 1 else (repeated(begins_s, rounds), rounds)


def settling(arrival_s: Floats) -> int:
    """Requests at the start that are not counted, while the count of the load fills: it is short for a window."""
    fills = int(np.searchsorted(arrival_s, arrival_s[0] + WINDOW_S))
    return min(max(SETTLES, fills), len(arrival_s) // 10)


def keeps(outcome: Outcome, wanted: Wanted) -> bool:
    """Tells whether the objective holds."""
    return outcome.late <= wanted.late_max and outcome.accuracy >= wanted.right_min


def loads(arrival_s: Floats) -> tuple[float, float]:
    """The least and the largest rate worth a policy, counted over the window by which it is looked up."""
    windows = max(int((arrival_s[-1] - arrival_s[0]) / WINDOW_S), 1)
    counts = np.histogram(arrival_s, bins=windows)[0] / WINDOW_S
    mean = len(arrival_s) / (windows * WINDOW_S)
    return max(float(np.quantile(counts, 0.01)), mean / 20), BEYOND * max(
        float(np.quantile(counts, BUSIEST)), mean
    )

"""Demands on policies: the traffic, how late and how right answers may be, and which outcome is the better."""

from dataclasses import KW_ONLY, dataclass
from typing import Literal, NamedTuple

import numpy as np

from cascadia.domain.policy import WINDOW_S
from cascadia.domain.workload import Floats
from cascadia.planner.policies.in_flight import worth
from cascadia.planner.policies.played import Outcome
from cascadia.planner.policies.sustained import SETTLES

BUSIEST = 0.999
"""Policies are solved for loads up to this quantile of the traffic's own, and somewhat beyond."""
BEYOND = 1.1
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
    def skip(self) -> int:
        """Requests at the start of the verdict that are not counted."""
        return settling(self.judged_s)

    @property
    def right_min(self) -> float:
        """The mean that keeps `accuracy_min`: below any where none is asked for."""
        return (self.accuracy_min or 0.0) - ROUNDING

    def merit(self, outcome: Outcome) -> Merit:
        return Merit(keeps(outcome, self), worth([outcome], [1.0], self.late_max, self.right_min))


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

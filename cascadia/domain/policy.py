"""Policies: which model takes a waiting batch of a group of one-pass models, and how many of it.

A group is models that run on the same workers, each of which serves one batch at a time (RAMSIS section 3). A policy
is a table for one level of load: for so many queued requests and so much slack of the earliest, a model and a batch
size. Router and simulator both follow it; it is looked up while serving, never solved.
"""

from bisect import bisect_left, bisect_right
from dataclasses import KW_ONLY, dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

WINDOW_S = 0.5
"""The rate by which a policy is chosen is counted over so many seconds (RAMSIS section 6)."""


class Decision(NamedTuple):
    """`batch` requests, those of the earliest deadlines, go to `model`. With a batch of 0 none goes yet: ask again
    when another request has joined, or `Policy.wait_s` later. `refuses`: whoever else is queued is refused."""

    model: str
    batch: int
    refuses: bool = False


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """Decisions for one number of queued requests: from `slack_s[i]` on, below `slack_s[i + 1]`, `batch[i]` of them
    go to `model[i]`, and where `refuses[i]` the rest is refused; empty: nowhere. `slack_s` begins with 0, which also
    stands for the earliest being late, and rises.
    """

    slack_s: tuple[float, ...]
    model: tuple[str, ...]
    batch: tuple[int, ...]
    refuses: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.slack_s) == len(self.model) == len(self.batch) or not self.slack_s:
            raise ValueError("a row has as many models and batches as slacks, and at least one")
        if self.refuses and len(self.refuses) != len(self.slack_s):
            raise ValueError("a row says of each slack, or of none, whether the rest is refused")
        if self.slack_s[0] != 0 or any(above <= below for below, above in pairwise(self.slack_s)):
            raise ValueError(f"slacks do not rise from 0: {self.slack_s}")
        if min(self.batch) < 0:
            raise ValueError(f"a batch is negative: {self.batch}")
        if self.batch[0] == 0:
            raise ValueError("a row waits for ever: its first batch is 0")

    def at(self, slack_s: float) -> int:
        """Index of the decision for this slack."""
        return max(bisect_right(self.slack_s, slack_s) - 1, 0)

    def refuses_at(self, at: int) -> bool:
        """Tells whether decision `at` refuses the rest."""
        return bool(self.refuses) and self.refuses[at]


@dataclass(frozen=True, slots=True)
class PolicyExpectation:
    """Expectations of a policy at the rate that it is for (docs/models/policy.md, "What is expected").

    `accuracy` (0-100) is over the requests in time; `late` is the share (0-1) that is late or dropped; `reward` is the
    accuracy that a request earns in the mean, nothing where it is late. `full` is the share of decisions at which the
    queue is full: where it is below 1e-4 the reward is a lower bound.
    """

    accuracy: float
    late: float
    reward: float
    full: float


@dataclass(frozen=True, slots=True)
class Policy:
    """A table for loads up to `up_to`: `rows[n - 1]` is for n queued requests, the last one for more too.

    `up_to` is in requests a second of the whole group, or in requests under way in it, as `Policies.index` says.
    """

    up_to: float
    rows: tuple[PolicyRow, ...]
    expected: PolicyExpectation | None = None

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("a policy has no row")
        for queued, row in enumerate(self.rows, start=1):
            if max(row.batch) > queued:
                raise ValueError(f"of {queued} queued requests {max(row.batch)} are to be served at once")

    def decide(self, queued: int, slack_s: float) -> Decision:
        """Model and batch for `queued` >= 1 requests, the earliest of which has `slack_s` left to its deadline."""
        row = self._row(queued)
        at = row.at(slack_s)
        return Decision(row.model[at], row.batch[at], row.refuses_at(at))

    def wait_s(self, queued: int, slack_s: float) -> float:
        """Time until the decision changes if no request joins: what a batch of 0 waits for."""
        row = self._row(queued)
        at = row.at(slack_s)
        return max(slack_s - row.slack_s[at], 0.0)

    def _row(self, queued: int) -> PolicyRow:
        return self.rows[min(queued, len(self.rows)) - 1]


@dataclass(frozen=True, slots=True)
class Policies:
    """Policies of one group of models, by rising load, for `workers` equal workers.

    `queue`: each worker has its own, filled in turn (`worker`, RAMSIS section 3.2.1), or all take from one
    (`central`). `index`: the load is the arrival `rate` over `WINDOW_S`, or the number of requests `in_flight` (waiting
    and being served) in the group. `late`: a request that no model can answer in time is served all the same (`serve`)
    or refused (`drop`): one with less slack than `least_s`, or none, and where a row says so. Deadlines are `slo_s`
    after the arrival where a request brings none of its own.
    """

    group: str
    models: tuple[str, ...]
    _: KW_ONLY
    slo_s: float
    workers: int
    queue: Literal["worker", "central"]
    index: Literal["rate", "in_flight"]
    levels: tuple[Policy, ...]
    late: Literal["serve", "drop"] = "serve"
    kind: str = "mdp"
    least_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.levels:
            raise ValueError(f"group {self.group!r} has no policy")
        borders = [level.up_to for level in self.levels]
        if borders[0] < 0 or any(above <= below for below, above in pairwise(borders)):
            raise ValueError(f"the loads of group {self.group!r} do not rise: {borders}")
        used = {name for level in self.levels for row in level.rows for name in row.model}
        if unknown := used - set(self.models):
            raise ValueError(f"group {self.group!r} has no model {sorted(unknown)[0]!r}")

    def at(self, load: float) -> Policy:
        """The policy of the lowest load that is at least `load` (RAMSIS section 3.2.2); beyond all of them the
        last."""
        borders = [level.up_to for level in self.levels]
        return self.levels[min(bisect_left(borders, load), len(borders) - 1)]

    def only(self, load: float) -> "Policies":
        """The same with the policy of this load alone."""
        return replace(self, levels=(self.at(load),))

    def beyond(self, load: float) -> bool:
        """Tells whether the group has no policy for so much load: a reason for an alarm."""
        return load > self.levels[-1].up_to

    def lost(self, slack_s: float) -> bool:
        """Tells whether a request with so much slack is refused, unasked."""
        return self.late == "drop" and (slack_s <= 0 or slack_s < self.least_s)

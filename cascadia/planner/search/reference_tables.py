"""Tables that stand in for those of routings that have none of their own.

Every stage has one made with all requests sent to it; each round of the bi-level loop adds those of its routing. For
another routing, the nearest table that was made for no less work serves, its work scaled by the ratio of tokens.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cascadia.planner.allocation.demand import JUDGE, Demand
from cascadia.planner.allocation.knapsack import cover
from cascadia.planner.search.context import Search
from cascadia.planner.tables.loads import at_gates, verdict_reads
from cascadia.planner.tables.tables import StageTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Reference:
    """A demand and the work (tokens) that its table was made for."""

    demand: Demand
    work: float


@dataclass(eq=False)
class References:
    """References by `Demand.stage`, by falling work: the first was made for all requests."""

    search: Search
    by_stage: dict[int, list[Reference]] = field(default_factory=dict)
    _covers: dict[tuple[int, float], Floats] = field(default_factory=dict)
    _ones: dict[tuple[int, int, int], tuple[Demand, float]] = field(default_factory=dict)

    @staticmethod
    def of(search: Search) -> "References":
        """References with the tables of every stage for all requests (and of the judge for all verdicts)."""
        found = References(search)
        for demand, work in search.whole_demands():
            found._add(Reference(demand, work))
        return found

    def add(self, routing: int, demands: Iterable[Demand]) -> None:
        for demand in demands:
            self._add(Reference(demand, tokens_sent(self.search, demand.stage, routing)))

    def _add(self, reference: Reference) -> None:
        known = self.by_stage.setdefault(reference.demand.stage, [])
        # A table of no work tells nothing of more.
        if reference.work > 0 and all(abs(reference.work - k.work) > SLACK * k.work for k in known):
            known.append(reference)
            known.sort(key=lambda r: -r.work)

    def nearest(self, stage: int, work: Floats) -> Ints:
        """Position, for each amount of work, of the smallest reference that was made for no less."""
        known = np.array([r.work for r in self.by_stage[stage]])
        found: Ints = np.maximum((known[None, :] >= work[:, None] * (1 - 1e-6)).sum(axis=1) - 1, 0)
        return found

    def covered(self, table: StageTable, bound_s: float) -> Floats:
        """Largest share of the table's work per number of GPUs of the cluster, each replica within `bound_s`."""
        key = (id(table), bound_s)
        if key not in self._covers:
            gpus = [shape.gpus for shape in table.shapes]
            most = self.search.problem.cluster.gpus
            self._covers[key] = cover(gpus, table.shares(bound_s + SLACK), most, enough=1.0).share
        return self._covers[key]

    def one(self, stage: int, routing: int) -> tuple[Demand, float]:
        """The nearest reference's demand, and what multiple of its work the routing needs."""
        known = self.by_stage[stage]
        key = (stage, routing, len(known))
        found = self._ones.get(key)
        if found is None:
            work = tokens_sent(self.search, stage, routing)
            reference = known[int(self.nearest(stage, np.array([work]))[0])]
            found = self._ones[key] = reference.demand, work / reference.work
        return found


def tokens_sent(search: Search, stage: int, routing: int) -> float:
    """Tokens that one routing sends to a stage (or to the judge): the measure of its work."""
    one = np.array([routing])
    return float(judge_tokens(search, one)[0] if stage == JUDGE else stage_tokens(search, stage, one)[0])


def stage_tokens(search: Search, stage: int, routings: Ints) -> Floats:
    """Tokens sent to a stage, for several routings."""
    tokens: Floats = search.routings.reached[routings, stage] * search.whole_work(stage)
    return tokens


def judge_tokens(search: Search, routings: Ints) -> Floats:
    """Tokens that the judge reads, for several routings."""
    verdicts = search.routings.verdicts(routings)
    whole = verdict_reads(search.problem, np.ones_like(at_gates(search.problem))).sum(axis=1)
    work = np.zeros(len(routings))
    for stage in range(verdicts.shape[1]):
        work += verdicts[:, stage] * float(whole[stage])
    return work

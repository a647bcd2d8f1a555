"""Table of the gates of a user's own table: whether a cascade behind it can beat a coin, by the formula of
`payoff.py`.
"""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise

import numpy as np

from cascadia.domain.problem import Problem
from cascadia.domain.quality import Floats
from cascadia.planner.baselines.payoff import Pair, least_auc, margin
from cascadia.planner.search.context import Search
from cascadia.planner.search.stage_usd import stage_usd, verdict_usd
from cascadia_judge.scores.agreement import Agreement, agreement


@dataclass(frozen=True, slots=True)
class Gate:
    """Gate between two stages that follow each other. `found` is None where the scores are the quality itself,
    or there is nothing to tell apart. `pays_from`: the least AUC, None where no gate would do. `beyond_coin`:
    points of quality that a cascade gains at most beyond a coin for the same money.
    """

    small: str
    large: str
    cost_ratio: float
    _: KW_ONLY
    judge_ratio: float
    right: float
    found: Agreement | None
    pays_from: float | None
    beyond_coin: float

    @property
    def said(self) -> str:
        costs = f"{self.small} costs {self.cost_ratio:.2g} of {self.large} a question"
        judged = f" and a verdict {self.judge_ratio:.2g}" if self.judge_ratio > 0 else ""
        before = f"{self.small} → {self.large}: {costs}{judged}; "
        if self.pays_from is None:
            return (
                f"{before}no gate makes a cascade of the two better than a coin, since {self.small} suffices in "
                f"{self.right:.0%} and is too dear for that: only skipping it by the question can"
            )
        from_ = f"{before}a cascade of the two begins to beat a coin at an AUC of {self.pays_from:.2f}"
        if self.found is None:
            return from_
        auc = f"this judge's is {self.found.auc:.2f} ± {1.96 * self.found.standard_error:.2f}"
        if self.found.auc < self.pays_from:
            return f"{from_}; {auc}: it does not pay here"
        return f"{from_}; {auc}: up to {self.beyond_coin:.1f} points beyond the coin for the same money"


def gates(search: Search) -> tuple[Gate, ...]:
    """Gates of stages that follow each other, small to large."""
    usd = stage_usd(search)
    stages = range(len(search.problem.stages))
    verdict = verdict_usd(search, usd)
    return tuple(
        _gate(search.problem, a, b, usd[a] / usd[b], verdict / usd[b]) for a, b in _known(stages, usd)
    )


def _known(stages: range, usd: dict[int, float]) -> Iterator[tuple[int, int]]:
    return ((a, b) for a, b in pairwise(stages) if usd.get(a, 0.0) > 0 and usd.get(b, 0.0) > 0)


def _gate(problem: Problem, a: int, b: int, cost_ratio: float, judge_ratio: float) -> Gate:
    table = problem.quality
    change = table.quality[b] - table.quality[a]
    graded = not np.isin(table.quality[a], (0.0, 100.0)).all()
    right = change <= change.mean() if graded else table.quality[a] > 0
    gain, loss = _mean(change[~right]), -_mean(change[right])
    pair = Pair(float(right.mean()), gain, loss, cost_ratio, judge_ratio)
    known = np.array_equal(table.score[a], table.quality[a])
    found = None if known else agreement(table.score[a], right)
    beyond = 0.0 if found is None else max(margin(pair, found.auc), 0.0)
    return Gate(
        problem.stages[a].name,
        problem.stages[b].name,
        cost_ratio,
        judge_ratio=judge_ratio,
        right=pair.right,
        found=found,
        pays_from=least_auc(pair),
        beyond_coin=beyond,
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0

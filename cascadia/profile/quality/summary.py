"""Summary of what a run found: how good each stage is, and whether the judge's score tells right answers from
wrong ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia.profile.quality.journal import Done
from cascadia_judge.scores.agreement import Agreement, agreement

Floats = NDArray[np.float64]

Z_95 = 1.959964


class Mean(NamedTuple):
    """Mean with the ends of its 95 % confidence interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class StageSummary:
    """Summary of a stage over the prompts in the table. `quality` is of those with a reference, of which there
    are `checked`.

    `cut`: answers that ran into the limit of tokens. `agreement`: None unless scores come from a judge.
    """

    name: str
    model: str
    questions: int
    score: Mean
    checked: int
    quality: Mean | None
    input_tokens: float
    output_tokens: float
    cut: int
    failed: Mapping[str, int]
    agreement: Agreement | None


def stage_summary(
    name: str, model: str, rows: Sequence[Done], failed: Mapping[str, int], *, judged: bool
) -> StageSummary:
    """`rows` are the stage's own, at least one; `judged`: by a judge, beside any checks."""
    checked = [row for row in rows if row.quality is not None]
    return StageSummary(
        name=name,
        model=model,
        questions=len(rows),
        score=mean_of(np.array([row.score for row in rows])),
        checked=len(checked),
        quality=mean_of(_quality(checked)) if checked else None,
        input_tokens=float(np.mean([row.input_tokens for row in rows])),
        output_tokens=float(np.mean([row.output_tokens for row in rows])),
        cut=sum(row.cut for row in rows),
        failed=failed,
        agreement=agreement_of(checked) if judged else None,
    )


def agreement_of(checked: Sequence[Done]) -> Agreement | None:
    """Agreement of the score with a check's outcome; None where the answers are all right or all wrong."""
    return agreement(np.array([row.score for row in checked], dtype=np.float64), _quality(checked) > 50.0)


def mean_of(values: Floats) -> Mean:
    """Mean of n >= 1 values, 0-100.

    The interval is normal; where all are 0 or 100 it is Wilson's (JASA 22, 1927): 20 of 20 proves no perfection.
    """
    n, mean = len(values), float(values.mean())
    if np.isin(values, (0.0, 100.0)).all():
        p, zz = mean / 100.0, Z_95**2 / n
        middle = (p + zz / 2) / (1 + zz)
        half = np.sqrt(p * (1 - p) * zz + zz**2 / 4) / (1 + zz)
        low, high = 100 * (middle - half), 100 * (middle + half)
    else:
        half = Z_95 * float(values.std(ddof=1)) / np.sqrt(n) if n > 1 else 100.0
        low, high = mean - half, mean + half
    return Mean(mean, max(0.0, float(low)), min(100.0, float(high)))


def _quality(checked: Sequence[Done]) -> Floats:
    return np.array([row.quality for row in checked], dtype=np.float64)

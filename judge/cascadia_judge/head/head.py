"""Head on the encoder: from what is seen of an answer to the quality that it can be expected to have.

The log-odds are the mean of a regularised logistic regression's and of boosted trees': each alone did worse
on every set it was tried on (docs/models/judge.md). A calibration that was fitted on rows that neither had
seen makes a quality of 0-100 of them.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np

from cascadia_judge.head.features import Floats, Group, Seen
from cascadia_judge.head.learned import Line, Trees
from cascadia_judge.head.projection import Basis
from cascadia_judge.scores.calibration import Calibration

SPREAD_MAX = 50.0
"""The standard deviation of a quality that is 0 or 100 with equal chance: nothing is known then."""


class Score(NamedTuple):
    """`quality` (n) 0-100 and `certainty` (n) 0-1: 1 where answers that looked so were all worth the same."""

    quality: Floats
    certainty: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """Learned judge for answers of `stage` (`""`: of any), by `basis.groups`. `spread` (k) is the standard
    deviation of quality at the raw scores `spread_at` (k), which ascend. `measured` says how it did in
    cross-validation.
    """

    stage: str
    basis: Basis
    line: Line
    _: KW_ONLY
    trees: Trees
    calibration: Calibration
    spread_at: Floats
    spread: Floats
    measured: dict[str, Any]

    @property
    def groups(self) -> tuple[Group, ...]:
        return self.basis.groups

    def raw(self, seen: Seen) -> Floats:
        """0-100, before calibration."""
        return raw_score(self.line, self.trees, self.basis.columns(seen))

    def score(self, seen: Seen) -> Score:
        raw = self.raw(seen)
        spread = np.interp(raw, self.spread_at, self.spread)
        return Score(self.calibration(raw), np.clip(1.0 - spread / SPREAD_MAX, 0.0, 1.0))


def raw_score(line: Line, trees: Trees, x: Floats) -> Floats:
    # The mean of two learners' log-odds; beyond 40 the score moves by nothing, and `exp` overflows later.
    log_odds = 0.5 * (line(x) + trees(x))
    return np.asarray(100.0 / (1.0 + np.exp(-np.clip(log_odds, -40, 40))), dtype=np.float64)

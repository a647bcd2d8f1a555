"""Training of a probe, with cross-validation as `head.training` does it: rows of one question are never on both sides
of a split, and scores, calibration and the limit of what is familiar all rest on folds that did not see the row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.features import Floats
from cascadia_judge.head.learned import Line
from cascadia_judge.head.learners import fit_line
from cascadia_judge.head.training import ROWS_MIN, folds_of, measures
from cascadia_judge.probe.familiar import fit_axes, fit_familiar
from cascadia_judge.probe.probe import Probe, ProbeHead, raw
from cascadia_judge.probe.reading import Readings
from cascadia_judge.scores.calibration import smoothed

RIDGE = 0.3
CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a probe: `layer` of a model with so many `layers`."""

    layer: int
    layers: int


class Probed(NamedTuple):
    """`scores` (rows) by folds that did not see the row; `unlike` (rows) has no verdict where it is served. `foreseen`
    (rows) of the question alone."""

    probe: Probe
    scores: Floats
    foreseen: Floats
    unlike: NDArray[np.bool_]

    @property
    def served(self) -> Floats:
        """Scores as a gate takes them: it escalates what has no verdict."""
        return np.where(self.unlike, 0.0, self.scores)


def train_probe(
    seen: Readings,
    quality: Floats,
    questions: Sequence[str],
    place: Place,
    *,
    about: dict[str, Any],
    folds: int = 5,
    seed: int = 0,
) -> Probed:
    """Raises `BadVerdict` where there is too little to learn from."""
    if len(quality) < ROWS_MIN or len(set(questions)) < 2 * folds:
        what = f"{len(quality)} rows of {len(set(questions))} questions are too few"
        raise BadVerdict("rows", what, f"give {ROWS_MIN} rows of {2 * folds} questions or more")
    if quality.min() == quality.max():
        what = f"all have quality {quality[0]:g}"
        raise BadVerdict("rows", what, "give answers that differ in what they are worth")
    fold = folds_of(questions, folds, seed)
    stray = np.zeros(len(quality))
    for k in range(folds):
        stray[fold == k] = fit_axes(seen.question[fold != k]).stray(seen.question[fold == k])
    familiar = fit_familiar(seen.question, stray, _upper)
    before, foreseen = _head(seen.question, quality, fold)
    after, scores = _head(seen.whole, quality, fold)
    width = seen.question.shape[1]
    probe = Probe(
        place.layer,
        place.layers,
        width,
        question=before,
        answer=after,
        familiar=familiar,
        about=about,
    )
    return Probed(probe, scores, foreseen, stray > familiar.cut)


def _head(x: Floats, quality: Floats, fold: NDArray[np.int64]) -> tuple[ProbeHead, Floats]:
    """A head, and scores of folds that it did not see."""
    found, calibrated = np.zeros(len(x)), np.zeros(len(x))
    folds = np.unique(fold)
    for k in folds:
        found[fold == k] = raw(_line(x[fold != k], quality[fold != k]), x[fold == k])
    for k in folds:
        calibrated[fold == k] = smoothed(found[fold != k], quality[fold != k])(found[fold == k])
    head = ProbeHead(_line(x, quality), smoothed(found, quality), measures(calibrated, quality))
    return head, calibrated


def _line(x: Floats, quality: Floats) -> Line:
    return fit_line(x, quality / 100.0, np.ones(len(x)), RIDGE)


def _upper(count: int, of: int) -> float:
    """Upper limit of a share (Clopper and Pearson 1934)."""
    from scipy.stats import beta

    return 1.0 if count == of else float(beta.ppf(CONFIDENCE, count + 1, of - count))

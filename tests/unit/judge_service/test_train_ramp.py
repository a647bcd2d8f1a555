"""A ramp learns the judge's own verdicts from an earlier look at the texts, and how far to trust each."""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import pytest

from cascadia.demo.stages import HEAD
from cascadia.exits.readings import exits, losses
from cascadia.judge_service.ramp import seen_by
from cascadia.judge_service.train_ramp import fit_ramp
from cascadia_judge.embedding import Case, EmbeddingJudge
from cascadia_judge.encoder.encoder import Encoded

pytestmark = pytest.mark.slow

SIZE = 384
TURN = np.random.default_rng(1).normal(0, SIZE**-0.5, (SIZE, SIZE))
KINDS = np.random.default_rng(2).normal(size=(6, SIZE))
POINTS = 3.0


class Vectors:
    """A vector for each text, near that of its kind; `turned`: as an earlier layer has it, less plainly."""

    size = SIZE

    def __init__(self, *, turned: bool = False) -> None:
        self._turned = turned

    def encoded(self, texts: Sequence[str], tokens_max: int = 0) -> Encoded:
        rows = [self._one(text) for text in texts]
        vectors = np.array(rows).reshape(len(texts), SIZE).astype(np.float32)
        length = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        return Encoded(vectors / length, np.array([len(text.split()) for text in texts]))

    def _one(self, text: str) -> np.ndarray:
        if not text:
            return np.zeros(SIZE)
        rng = np.random.default_rng(crc32(text.encode()))
        kind = rng.integers(len(KINDS))
        whole = KINDS[kind] + 0.3 * rng.normal(size=SIZE)
        # Of the first kind the early look sees too little.
        noise = 3.0 if kind == 0 else 0.1
        return whole @ TURN + noise * rng.normal(size=SIZE) if self._turned else whole


def test_it_learns_verdicts_and_which_of_them_to_doubt() -> None:
    judge, early = EmbeddingJudge.read(HEAD, Vectors()), Vectors(turned=True)
    cases = [Case(f"question {at}") for at in range(450)]
    ramp, fresh = fit_ramp(judge, early, cases, "", POINTS, 0.05)  # type: ignore[arg-type]
    head = judge.heads.index(judge.head_for(cases[0]))
    told = judge.heads[head].score(ramp.mapped(seen_by(early, judge, cases))).quality
    whole = np.array([verdict.score for verdict in judge.scores(cases)])
    assert np.corrcoef(told, whole)[0, 1] > 0.7
    assert np.array_equal(fresh.labels[:, 0] == 1, np.abs(told - whole)[2::3] > POINTS)
    differs = fresh.wrong[:, 0]
    assert fresh.doubts[differs].mean() > fresh.doubts[~differs].mean()
    # Learned from cases that the map was fitted to, it would be far too small.
    assert fresh.doubts.mean() == pytest.approx(differs.mean(), abs=0.15)
    risks = [losses(fresh, exits(fresh.doubts, row)).mean() for row in ramp.path.thresholds]
    assert risks == sorted(risks)


def test_too_few_cases_teach_nothing() -> None:
    judge = EmbeddingJudge.read(HEAD, Vectors())
    with pytest.raises(ValueError, match="has 9 cases; give at least 200"):
        fit_ramp(judge, Vectors(), [Case(str(at)) for at in range(9)], "", 10.0, 0.05)  # type: ignore[arg-type]

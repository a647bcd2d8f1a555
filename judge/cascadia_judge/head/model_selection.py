"""Choice of the heads that a judge gets, from rows of graded answers.

For each stage with enough rows, and for all together: one that knows the question alone (is an answer of
this stage likely to fail?), one for answers without log-probabilities, and one for answers with them. The
last may leave the answer's text unread: it is read only where that is better by more than one standard
error, since what is not read cannot be written to please.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cascadia_judge.encoder.encoder import Encoder
from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.features import Floats, Group, JudgeInput, Seen, joined, look
from cascadia_judge.head.head import Head
from cascadia_judge.head.rows import Row
from cascadia_judge.head.training import Course, Crossed, train
from cascadia_judge.injection.null_answers import NULLS

STAGE_ROWS_MIN = 300
ENCODED_AT_ONCE = 32


class Trained(NamedTuple):
    """`scores` (rows) are those of an answer head, each by folds that did not see the row; NaN where none
    judged it. `foreseen` likewise, of a head that knows the question alone."""

    heads: tuple[Head, ...]
    scores: Floats
    foreseen: Floats


def see(encoder: Encoder, rows: Sequence[Row], told: Callable[[float], None]) -> Seen:
    parts = []
    for start in range(0, len(rows), ENCODED_AT_ONCE):
        some = rows[start : start + ENCODED_AT_ONCE]
        parts.append(look(encoder, [JudgeInput(r.question, r.answer, r.certainty) for r in some]))
        told(min(1.0, (start + len(some)) / len(rows)))
    return joined(parts)


def see_nulls(encoder: Encoder) -> Seen:
    """Answers that suit every question, without one."""
    return look(encoder, [JudgeInput("", text) for text in NULLS])


def teach(
    rows: Sequence[Row],
    seen: Seen,
    course: Course,
    told: Callable[[float], None],
    own_from: int = STAGE_ROWS_MIN,
) -> Trained:
    """A stage with at least `own_from` rows has heads of its own. Raises `BadVerdict` where the rows are too few."""
    quality = np.array([row.quality for row in rows])
    stages = np.array([row.stage for row in rows], dtype=np.str_)
    counts = Counter(row.stage for row in rows if row.stage)
    large = [stage for stage, count in counts.items() if count >= own_from]
    scores, foreseen = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    heads: list[Head] = []
    # Where all rows are of one stage, the heads for any stage are its own.
    tasks = ["", *large] if len(counts) > 1 else [""]
    for done, stage in enumerate(tasks):
        mine = np.flatnonzero(stages == stage) if stage else np.arange(len(rows))
        some = seen.take(mine)
        questions = [rows[i].prompt_id for i in mine.tolist()]
        answered = bool((some.answer_shape[:, 0] > 0).any())
        for groups in _candidates(some, answered, course.reads):
            best = [train(stage, some, quality[mine], questions, option, course) for option in groups]
            head, crossed = _simplest(best)
            heads.append(head)
            (foreseen if head.groups == ("question",) else scores)[mine] = crossed.quality
        told((done + 1) / len(tasks))
    if not heads:
        raise BadVerdict("rows", "have neither questions nor answers", "give rows with both")
    return Trained(tuple(heads), scores, foreseen)


def _candidates(seen: Seen, answered: bool, reads: bool) -> list[list[tuple[Group, ...]]]:
    """Heads to be made, each with what it may look at, from little to much."""
    asked = bool((seen.question_shape[:, 0] > 0).any())
    before: tuple[Group, ...] = ("question",) if asked else ()
    wanted: list[list[tuple[Group, ...]]] = []
    if asked:
        wanted.append([("question",)])
    if answered:
        wanted.append([(*before, "answer")])
    if answered and not np.isnan(seen.certainty).any():
        unread: list[tuple[Group, ...]] = [] if reads else [(*before, "certainty")]
        wanted.append([*unread, (*before, "answer", "certainty")])
    return wanted


def _simplest(found: Sequence[tuple[Head, Crossed]]) -> tuple[Head, Crossed]:
    """The first unless a later one is better by more than its standard error; where no AUC is known, the
    last."""
    best = found[0]
    for other in found[1:]:
        before, after = best[0].measured["auc"], other[0].measured["auc"]
        if before is None or after is None or after - before > other[0].measured["auc_standard_error"]:
            best = other
    return best

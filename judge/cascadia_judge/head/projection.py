"""Projection of what is seen of an answer onto the columns that a learner gets.

Vectors are turned onto their principal axes (Pearson 1901), fitted on the training rows alone, since a few
hundred rows cannot bear a weight for each of 384 numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia_judge.head.features import CERTAINTY_NAMES, SHAPE_NAMES, Floats, Group, Seen

AXES = {"question": 24, "answer": 24, "pair": 12}


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """`axes` by block: (size, k). Columns depend on `groups` alone."""

    groups: tuple[Group, ...]
    axes: dict[str, NDArray[np.float32]]

    @property
    def names(self) -> tuple[str, ...]:
        names: list[str] = []
        if "question" in self.groups:
            names += [f"question axis {i}" for i in range(self.axes["question"].shape[1])]
            names += [f"question {name}" for name in SHAPE_NAMES]
        if "answer" in self.groups:
            names += [f"answer axis {i}" for i in range(self.axes["answer"].shape[1])]
            names += [f"pair axis {i}" for i in range(self.axes["pair"].shape[1])]
            names += ["cosine", *(f"answer {name}" for name in SHAPE_NAMES)]
        if "certainty" in self.groups:
            names += CERTAINTY_NAMES
        return tuple(names)

    def columns(self, seen: Seen) -> Floats:
        """(n, columns); NaN where a certainty is not known."""
        parts: list[Floats] = []
        if "question" in self.groups:
            parts += [seen.question @ self.axes["question"], seen.question_shape]
        if "answer" in self.groups:
            pair = seen.question * seen.answer
            parts += [seen.answer @ self.axes["answer"], pair @ self.axes["pair"]]
            parts += [pair.sum(axis=1, keepdims=True), seen.answer_shape]
        if "certainty" in self.groups:
            parts.append(seen.certainty)
        return np.hstack(parts)


def fit_basis(seen: Seen, groups: Sequence[Group]) -> Basis:
    axes: dict[str, NDArray[np.float32]] = {}
    if "question" in groups:
        axes["question"] = _axes(seen.question, AXES["question"])
    if "answer" in groups:
        axes["answer"] = _axes(seen.answer, AXES["answer"])
        axes["pair"] = _axes(seen.question * seen.answer, AXES["pair"])
    return Basis(tuple(groups), axes)


def _axes(vectors: Floats, most: int) -> NDArray[np.float32]:
    """The directions of most variance, as many as the rows can tell; signs so that the largest entry is
    positive."""
    centred = vectors - vectors.mean(axis=0)
    _, spread, directions = np.linalg.svd(centred.T @ centred, hermitian=True)
    kept = directions[: min(most, int((spread > 1e-9).sum()))]
    # Which way an axis points is the solver's whim: files made of the same rows would differ by machine.
    sign = np.sign(kept[np.arange(len(kept)), np.abs(kept).argmax(axis=1)])
    return np.ascontiguousarray((kept * sign[:, None]).T, dtype=np.float32)

"""Readings of a model's ramps: for each input and ramp a label and a doubt, and the label of the whole model.

A ramp stands between two layers and guesses what the model will answer. `doubt` is what its own probabilities leave
for other labels, 1 - max p; a threshold is compared with it (Apparate section 2.2, there an entropy).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Readings:
    """`labels` and `doubts` (inputs, ramps), ramps from first to last; `final` (inputs), the whole model's labels."""

    labels: Ints
    doubts: Floats
    final: Ints

    def __post_init__(self) -> None:
        if self.labels.shape != self.doubts.shape or self.final.shape != self.labels.shape[:1]:
            raise ValueError(f"shapes {self.labels.shape}, {self.doubts.shape}, {self.final.shape}")

    def __len__(self) -> int:
        return len(self.final)

    @property
    def ramps(self) -> int:
        return int(self.labels.shape[1])

    @property
    def wrong(self) -> Bools:
        """(inputs, ramps): tells where a ramp's label is not the model's."""
        return np.asarray(self.labels != self.final[:, None])

    def take(self, rows: Ints | slice) -> "Readings":
        return Readings(self.labels[rows], self.doubts[rows], self.final[rows])

    def at(self, ramps: tuple[int, ...]) -> "Readings":
        """The same inputs seen at some of the ramps."""
        chosen = list(ramps)
        return Readings(self.labels[:, chosen], self.doubts[:, chosen], self.final)


def exits(doubts: Floats, thresholds: Floats) -> Ints:
    """(inputs): the first ramp whose doubt is below its threshold, the number of ramps where there is none.

    `doubts` (inputs, ramps), `thresholds` (ramps); a threshold of 0 lets nothing out.
    """
    out = np.column_stack([doubts < thresholds, np.ones(len(doubts), dtype=np.bool_)])
    return np.asarray(out.argmax(axis=1), dtype=np.int64)


def exit_of(doubts: Floats, thresholds: Floats) -> int | None:
    """The ramp at which one input leaves, None where at none; both are (ramps)."""
    out = doubts < thresholds
    return int(out.argmax()) if out.any() else None


def losses(readings: Readings, exit_at: Ints) -> Bools:
    """(inputs): tells where the answer differs from the whole model's, each input leaving at `exit_at`."""
    wrong = np.hstack([readings.wrong, np.zeros((len(readings), 1), dtype=np.bool_)])
    return np.asarray(wrong[np.arange(len(readings)), exit_at])

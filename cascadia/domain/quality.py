"""How good each stage's answer to each known prompt is, and what the gate would have seen of it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class QualityTable:
    """m prompts, S stages in cascade order.

    `score` (S, m), 0-100: what the gate sees. `quality` (S, m), 0-100: what the user cares about. The two are
    never mixed: thresholds compare scores, bounds speak of quality. `input_tokens` and `output_tokens` (S, m)
    are each model's own lengths. `foreseen` (S, m), 0-100, where there is a judge that reads the question alone: what
    it expects of each stage's answer before there is one.
    """

    prompt_ids: tuple[str, ...]
    stages: tuple[str, ...]
    score: Floats
    quality: Floats
    input_tokens: Floats
    output_tokens: Floats
    foreseen: Floats | None = None

    def __len__(self) -> int:
        return len(self.prompt_ids)

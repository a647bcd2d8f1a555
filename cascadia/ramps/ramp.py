"""A ramp: a linear head on what one tensor of a model holds of an input, that guesses the model's label."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


def softmax(logits: Vectors) -> Vectors:
    """(inputs, classes) each."""
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), dtype=np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Ramp:
    """Softmax of `weight` (classes, size) times the pooled `tensor` plus `bias` (classes). `share` (0-1) of the model's
    work comes before it."""

    tensor: str
    share: float
    weight: Vectors
    bias: Vectors

    def chances(self, pooled: Vectors) -> Vectors:
        """(inputs, classes), of what the ramp looks at (inputs, size)."""
        return softmax(pooled @ self.weight.T + self.bias)

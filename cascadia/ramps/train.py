"""Training of ramps on a frozen model: its own outputs are the labels, all inputs train all ramps (Apparate section
3.1). They are probabilities, not the likeliest class alone: how sure the model was says more of an input than what it
said (Hinton et al. 2015), and an eighth more inputs may leave at the same risk.

One pass of the model over the data gives what every ramp looks at; each ramp is then a logistic regression of its
own, so they are fitted side by side and none depends on which others are active. The model's weights are not
touched.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cascadia.exits.readings import Ints, Readings
from cascadia.ramps.cuts import Cut
from cascadia.ramps.ramp import Ramp, Vectors, softmax
from cascadia.ramps.segments import pooled
from cascadia.ramps.session import open_session

if TYPE_CHECKING:
    from onnx import ModelProto


class CannotRun(Exception):
    """The model does not take a batch, and what ONNX Runtime says of it."""


Batch = Mapping[str, Any]
"""The model's inputs by name, as arrays of one batch."""
STRENGTH = 0.03
"""Inverse of the ridge on standardised columns (scikit-learn's C)."""
STEPS_MAX = 300
LEAST = 0.01
"""Probabilities below it are not learned from."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """Vectors that ramps look at: `pooled` (cuts; inputs, size), and the model's own `chances` (inputs, classes)."""

    pooled: tuple[Vectors, ...]
    chances: Vectors

    @property
    def final(self) -> Ints:
        return np.asarray(self.chances.argmax(axis=1), dtype=np.int64)

    def take(self, rows: slice) -> "Seen":
        return Seen(tuple(each[rows] for each in self.pooled), self.chances[rows])


def look(model: "ModelProto", places: Sequence[Cut], batches: Iterable[Batch], threads: int = 1) -> Seen:
    """One pass over `batches`. The model's first output is (inputs, classes), of which the largest is its label.

    Raises `CannotRun` where the model does not take a batch.
    """
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

    session = open_session(pooled(model, [cut.tensor for cut in places]), threads)
    names = [model.graph.output[0].name, *(f"pooled {at}" for at in range(len(places)))]
    try:
        rows = [session.run(names, dict(batch)) for batch in batches]
    except (Fail, InvalidArgument, RuntimeException) as error:
        raise CannotRun(str(error).splitlines()[0]) from None
    chances, *found = (np.concatenate(part).astype(np.float32) for part in zip(*rows, strict=True))
    return Seen(tuple(each[:, 0] for each in found), chances)


def fit(places: Sequence[Cut], seen: Seen, threads: int = 1) -> tuple[Ramp, ...]:
    """A ramp at each place. Raises ValueError where the model gives all inputs one label."""
    from threadpoolctl import threadpool_limits

    if len(np.unique(seen.final)) < 2:
        raise ValueError("the model gives all texts the same label")
    chances = _probabilities(seen.chances)
    # More threads within one fit wait for each other longer than they work.
    with ThreadPoolExecutor(threads) as pool, threadpool_limits(1):
        heads = list(pool.map(lambda x: _head(x, chances), seen.pooled))
    return tuple(Ramp(cut.tensor, cut.share, *head) for cut, head in zip(places, heads, strict=True))


def _probabilities(outputs: Vectors) -> Vectors:
    """(inputs, classes): `outputs` where they are probabilities, else their softmax."""
    if (outputs >= 0).all() and np.allclose(outputs.sum(axis=1), 1.0, atol=1e-3):
        return outputs
    return softmax(outputs)


def _head(x: Vectors, chances: Vectors) -> tuple[Vectors, Vectors]:
    """Weight and bias, the standardising of columns folded in. A class that the model never gave is never guessed."""
    from sklearn.linear_model import LogisticRegression

    classes, final = chances.shape[1], chances.argmax(axis=1)
    mean, spread = x.mean(axis=0), x.std(axis=0) + 1e-6
    counts = np.isin(np.arange(classes), final) & (chances > LEAST)
    counts[np.arange(len(x)), final] = True
    at, labels = np.nonzero(counts)
    model = LogisticRegression(C=STRENGTH, max_iter=STEPS_MAX)
    found = model.fit(((x - mean) / spread)[at], labels, sample_weight=chances[at, labels])
    rows, bias = found.coef_, found.intercept_
    # scikit-learn has one row for two classes; half of it either way gives the same softmax.
    if len(found.classes_) == 2:
        rows, bias = np.vstack([-rows / 2, rows / 2]), np.concatenate([-bias / 2, bias / 2])
    weight, offset = np.zeros((classes, x.shape[1])), np.full(classes, _NEVER)
    weight[found.classes_] = rows / spread
    offset[found.classes_] = bias - (rows / spread) @ mean
    return weight.astype(np.float32), offset.astype(np.float32)


_NEVER = -1e4


def readings(ramps: Sequence[Ramp], seen: Seen) -> Readings:
    """Readings of all ramps on the inputs."""
    chances = [ramp.chances(pooled) for ramp, pooled in zip(ramps, seen.pooled, strict=True)]
    return Readings(
        np.stack([each.argmax(axis=1) for each in chances], axis=1).astype(np.int64),
        np.stack([1.0 - each.max(axis=1) for each in chances], axis=1).astype(np.float64),
        seen.final,
    )

"""Probe: from a reading of hidden states to the quality that an answer can be expected to have.

Two lines, fitted by a regularised logistic regression, each with its calibration: one knows where the question ends
(what will an answer be worth?), the other the answer too.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from cascadia_judge.errors import BadVerdict
from cascadia_judge.head.features import Floats
from cascadia_judge.head.learned import Line
from cascadia_judge.probe.familiar import Familiar
from cascadia_judge.probe.kv_state import KvState
from cascadia_judge.probe.reading import Reading, read
from cascadia_judge.scores.calibration import Calibration


@dataclass(frozen=True, slots=True, eq=False)
class ProbeHead:
    """`measured` says how it did in cross-validation."""

    line: Line
    calibration: Calibration
    measured: dict[str, Any]

    def score(self, seen: Floats) -> float:
        return float(self.calibration(raw(self.line, seen[None, :]))[0])


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """Ramp at `layer` of a model with so many `layers`, whose values are `width` wide. Thread-safe."""

    layer: int
    layers: int
    width: int
    _: KW_ONLY
    question: ProbeHead
    answer: ProbeHead
    familiar: Familiar
    about: dict[str, Any]
    digest: str = ""
    """Tells the bytes of its file from those of others."""

    def read(self, state: KvState, prompt_tokens: int) -> Reading:
        """Raises `BadVerdict` where `state` is another model's."""
        if (state.layers, state.width) != (self.layers, self.width):
            what = f"was trained on {self.layers} layers of {self.width} values, and the engine has "
            raise BadVerdict("probe", f"{what}{state.layers} of {state.width}", "train it on this model")
        return read(state, self.layer, prompt_tokens)

    def tell(self, reading: Reading) -> float | None:
        """Quality 0-100 of the answer, or where there is none, the one to be expected; None of a question unlike those
        of training."""
        if not self.familiar.knows(reading.question):
            return None
        if reading.answer is None:
            return self.question.score(reading.question)
        return self.answer.score(np.concatenate([reading.question, reading.answer]))


def raw(line: Line, seen: Floats) -> Floats:
    """(n) 0-100 for (n, columns), before calibration."""
    return np.asarray(100.0 / (1.0 + np.exp(-np.clip(line(seen), -40, 40))))

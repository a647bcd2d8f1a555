"""Passes through a model that exits at its ramps, with the batch made smaller after each.

An input leaves at the first ramp whose doubt is below its threshold: its answer is released at once. Those that are
to stay (a share drawn beforehand, or all) are released as well, but run on to the end, so that the model's own
label is known. The others' rows are taken out of the batch before the next segment, and tokens that only they had
with them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cascadia.exits.readings import Bools, Floats, Ints, Readings
from cascadia.ramps.ramp import Ramp, Vectors
from cascadia.ramps.segments import CHANCES, DOUBT, LABEL, mask_of, segments
from cascadia.ramps.session import open_session

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession

Release = Callable[[Ints, Vectors, int], object]
"""Told of rows of the batch, their answers (rows, classes), and the ramp they left at; the number of ramps at the
end.
"""


class Passed(NamedTuple):
    """`chances` (inputs, classes) is each input's answer, `exit_at` (inputs) where it left. `fed_back` are readings
    of those that stayed, in the order of the batch.
    """

    chances: Vectors
    exit_at: Ints
    fed_back: Readings


@dataclass(frozen=True, slots=True, eq=False)
class Passes:
    """A model in segments; `whole` is the model as it came. Thread-safe: nothing is changed by a pass."""

    whole: "InferenceSession"
    parts: tuple["InferenceSession", ...]
    tensors: tuple[str, ...]
    output: str
    mask: str | None

    @classmethod
    def of(
        cls,
        model: "ModelProto",
        ramps: Sequence[Ramp],
        threads: int = 1,
        whole: "InferenceSession | None" = None,
    ) -> "Passes":
        """`whole`: a session of `model`; None: one is opened."""
        parts = tuple(open_session(part, threads) for part in segments(model, ramps)) if ramps else ()
        tensors = tuple(ramp.tensor for ramp in ramps)
        return cls(
            whole or open_session(model, threads), parts, tensors, model.graph.output[0].name, mask_of(model)
        )

    def run_whole(self, batch: Mapping[str, Any]) -> Vectors:
        """Exits off: the model as it came, bit for bit."""
        return np.asarray(self.whole.run([self.output], dict(batch))[0])

    def run(
        self,
        batch: Mapping[str, Any],
        thresholds: Floats,
        stays: Bools,
        release: Release = lambda *_: None,
        *,
        declines: Bools | None = None,
    ) -> Passed:
        """`thresholds` (ramps), `stays` and `declines` (inputs): those that decline leave at no ramp."""
        n, ramps = len(stays), len(self.tensors)
        state = _State(dict(batch), np.arange(n))
        exit_at = np.full(n, ramps)
        labels, doubts = np.zeros((n, ramps), dtype=np.int64), np.ones((n, ramps))
        chances: Vectors | None = None
        for at in range(ramps):
            names = [self.tensors[at], CHANCES, LABEL, DOUBT]
            hidden, *read = self._run(at, names, state)
            guessed, label, doubt = read[0][:, 0], read[1][:, 0, 0], read[2][:, 0, 0]
            rows = state.rows
            labels[rows, at], doubts[rows, at] = label, doubt
            if chances is None:
                chances = np.zeros((n, guessed.shape[1]), dtype=np.float32)
            # Who stays goes on after it has left, and leaves but once.
            first = (doubt < thresholds[at]) & (exit_at[rows] == ramps)
            if declines is not None:
                first &= ~declines[rows]
            if first.any():
                exit_at[rows[first]], chances[rows[first]] = at, guessed[first]
                release(rows[first], guessed[first], at)
            goes_on = (exit_at[rows] == ramps) | stays[rows]
            if not goes_on.any():
                return Passed(chances, exit_at, _none(ramps))
            state = state.smaller(goes_on, self.mask, self.tensors[at - 1] if at else None)
            state.given[self.tensors[at]] = (
                hidden if goes_on.all() else _trimmed(hidden[goes_on], state.longest)
            )
        (final,) = self._run(ramps, [self.output], state)
        chances = np.zeros((n, final.shape[1]), dtype=np.float32) if chances is None else chances
        last = exit_at[state.rows] == ramps
        chances[state.rows[last]] = final[last]
        if last.any():
            release(state.rows[last], final[last], ramps)
        kept = stays[state.rows]
        rows = state.rows[kept]
        return Passed(chances, exit_at, Readings(labels[rows], doubts[rows], final[kept].argmax(axis=1)))

    def _run(self, at: int, names: list[str], state: "_State") -> list[Any]:
        session = self.parts[at] if self.parts else self.whole
        taken = {value.name for value in session.get_inputs()}
        return list(session.run(names, {name: part for name, part in state.given.items() if name in taken}))


@dataclass(slots=True, eq=False)
class _State:
    """Inputs under way: what the next segment is `given`, and which `rows` of the batch they are."""

    given: dict[str, Any]
    rows: Ints
    longest: int | None = None

    def smaller(self, goes_on: Bools, mask: str | None, passed: str | None) -> "_State":
        """Inputs that go on, without what the segment that was `passed` began with."""
        given = {name: part for name, part in self.given.items() if name != passed}
        if goes_on.all():
            return _State(given, self.rows, self.longest)
        given = {name: part[goes_on] for name, part in given.items()}
        longest = None
        if mask is not None:
            there = given[mask].astype(bool)
            longest = int(there.shape[1] - there[:, ::-1].argmax(axis=1).min())
            given = {name: part[:, :longest] for name, part in given.items()}
        return _State(given, self.rows[goes_on], longest)


def _trimmed(hidden: Any, longest: int | None) -> Any:
    return hidden if longest is None else hidden[:, :longest]


def _none(ramps: int) -> Readings:
    return Readings(np.zeros((0, ramps), dtype=np.int64), np.zeros((0, ramps)), np.zeros(0, dtype=np.int64))

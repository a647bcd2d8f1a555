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
    takes: tuple[tuple[str, ...], ...]
    """What each part is given."""
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
        return cls(
            whole or open_session(model, threads),
            parts,
            tuple(tuple(value.name for value in part.get_inputs()) for part in parts),
            tuple(ramp.tensor for ramp in ramps),
            model.graph.output[0].name,
            mask_of(model),
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
        """`thresholds` (ramps), `stays` and `declines` (inputs): those that decline leave at no ramp.

        Where nobody may leave and nobody is drawn, the model runs as it came.
        """
        n, ramps, drawn = len(stays), len(self.tensors), bool(stays.any())
        exit_at = np.full(n, ramps)
        off = not (thresholds > 0).any() or (declines is not None and bool(declines.all()))
        if off and not drawn:
            final = self.run_whole(batch)
            release(np.arange(n), final, ramps)
            return Passed(final, exit_at, _none(ramps))
        state = _State(dict(batch), np.arange(n))
        seen: list[tuple[Ints, Any, Any]] = []
        chances: Vectors | None = None
        for at, tensor in enumerate(self.tensors):
            hidden, guessed, label, doubt = self._run(at, [tensor, CHANCES, LABEL, DOUBT], state)
            doubt = doubt.ravel()
            rows = state.rows
            if drawn:
                seen.append((rows, label, doubt))
            out = doubt < thresholds[at]
            if off or not out.any():
                state.passed(at, self.tensors, hidden)
                continue
            # Who stays goes on after it has left, and leaves but once.
            first = out & (exit_at[rows] == ramps)
            if declines is not None:
                first &= ~declines[rows]
            if first.any():
                if chances is None:
                    chances = np.zeros((n, guessed.shape[-1]), dtype=np.float32)
                left, answers = rows[first], guessed[first, 0]
                exit_at[left], chances[left] = at, answers
                release(left, answers, at)
            goes_on = (exit_at[rows] == ramps) | stays[rows]
            if not goes_on.any():
                assert chances is not None
                return Passed(chances, exit_at, _none(ramps))
            state.passed(at, self.tensors, hidden)
            if not goes_on.all():
                state.keep(goes_on, self.mask)
        (final,) = self._run(ramps, [self.output], state)
        rows = state.rows
        if chances is None:
            chances = np.zeros((n, final.shape[1]), dtype=np.float32)
        last = exit_at[rows] == ramps
        if last.any():
            chances[rows[last]] = final[last]
            release(rows[last], final[last], ramps)
        if not drawn:
            return Passed(chances, exit_at, _none(ramps))
        # Only now, when all answers are out.
        labels, doubts = np.zeros((n, ramps), dtype=np.int64), np.ones((n, ramps))
        for at, (those, label, doubt) in enumerate(seen):
            labels[those, at], doubts[those, at] = label.ravel(), doubt
        kept = stays[rows]
        rows = rows[kept]
        return Passed(chances, exit_at, Readings(labels[rows], doubts[rows], final[kept].argmax(axis=1)))

    def _run(self, at: int, names: list[str], state: "_State") -> list[Any]:
        if not self.parts:
            return list(self.whole.run(names, state.given))
        return list(self.parts[at].run(names, {name: state.given[name] for name in self.takes[at]}))


@dataclass(slots=True, eq=False)
class _State:
    """Inputs under way: what the next segment is `given`, and which `rows` of the batch they are."""

    given: dict[str, Any]
    rows: Ints

    def passed(self, at: int, tensors: Sequence[str], hidden: Any) -> None:
        """Takes what segment `at` ended in, and forgets what it began with."""
        if at:
            del self.given[tensors[at - 1]]
        self.given[tensors[at]] = hidden

    def keep(self, goes_on: Bools, mask: str | None) -> None:
        """Takes the rows of those that do not go on out of everything, and tokens that only they had."""
        given = {name: part[goes_on] for name, part in self.given.items()}
        if mask is not None:
            there = given[mask].astype(bool)
            longest = int(there.shape[1] - there[:, ::-1].argmax(axis=1).min())
            if longest < there.shape[1]:
                # The runtime takes arrays without gaps, and would copy each anew at every segment.
                given = {name: np.ascontiguousarray(part[:, :longest]) for name, part in given.items()}
        self.given, self.rows = given, self.rows[goes_on]


def _none(ramps: int) -> Readings:
    return Readings(np.zeros((0, ramps), dtype=np.int64), np.zeros((0, ramps)), np.zeros(0, dtype=np.int64))

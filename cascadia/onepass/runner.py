"""One model, loaded: texts in, one pass through its layers, probabilities or vectors out. Nothing here waits or queues.

A pass is one call of ONNX Runtime for the whole batch, padded to its longest text, so that its time follows from model
and batch size: that is what a policy's tables rest on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cascadia.domain.errors import BadInput
from cascadia.exits.readings import Bools, Ints
from cascadia.onepass.model import GRAPH, TOKENIZER, OnePassModel, read_model
from cascadia.ramps.live import State
from cascadia.ramps.passes import Passed, Release
from cascadia.ramps.session import open_session
from cascadia.ramps.texts import well_formed
from cascadia_judge.encoder.graph import IDS, THERE

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

CHARACTERS_MAX = 1_000_000
"""More of a text is not looked at, whatever may be cut off it."""

Input = str | list[int]
"""A text, or the ids of its tokens."""


class Exits(Protocol):
    """Passes that inputs may leave early."""

    @property
    def ramps(self) -> int: ...

    @property
    def state(self) -> State: ...

    def run(
        self, batch: Mapping[str, Any], declines: Bools | None = None, release: Release = ...
    ) -> Passed: ...

    def close(self) -> None: ...


class BadText(Exception):
    """Input number `at` of those given cannot be read; the message says why, but not where a client wrote it."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at


class Forwarded(NamedTuple):
    """`values` (inputs, classes) are probabilities, or (inputs, size) vectors of length 1; `tokens` were read of
    each. `exit_at`: the ramp at which each left, the number of ramps for none; no ramps, none."""

    values: NDArray[np.float32]
    tokens: NDArray[np.int64]
    exit_at: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Runner:
    """Thread-safe: nothing is changed by a pass."""

    model: OnePassModel
    tokenizer: "Tokenizer"
    session: "InferenceSession"
    around: tuple[int, int]
    """The ids that stand in front of a text and behind it."""
    exits: Exits | None = None
    """None: every input has the whole model."""

    @classmethod
    def read(cls, folder: Path, threads: int = 1, exits: Exits | None = None) -> "Runner":
        """Computes with `threads` threads. Raises `BadInput` where the folder holds no model."""
        from tokenizers import Tokenizer

        model = read_model(folder)
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        first, last = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
        if first is None or last is None:
            raise BadInput(
                str(folder / TOKENIZER), "has no [CLS] and [SEP]", "make the model of a BERT encoder"
            )
        return cls(model, tokenizer, open_session(folder / GRAPH, threads, arena=False), (first, last), exits)

    def called(self, name: str) -> "Runner":
        """The same model under another name."""
        return replace(self, model=replace(self.model, name=name))

    def ids(self, inputs: Sequence[Input], *, truncate: int | None = None) -> list[list[int]]:
        """Token ids of each input, of which the first `truncate` tokens are read, with those around it; None: raises
        `BadText` for one that is too long, as for one that is empty."""
        texts = [one for one in inputs if isinstance(one, str)]
        cut = [well_formed(one[:CHARACTERS_MAX]) for one in texts]
        encoded = iter(self.tokenizer.encode_batch(cut, add_special_tokens=False) if cut else ())
        room = self.model.tokens_max - len(self.around)
        kept = room if truncate is None else max(min(truncate, self.model.tokens_max) - len(self.around), 1)
        vocabulary = self.tokenizer.get_vocab_size()
        found: list[list[int]] = []
        for at, one in enumerate(inputs):
            ids = list(next(encoded).ids) if isinstance(one, str) else one
            if not ids:
                raise BadText(at, "The text has no token: write at least one.")
            if min(ids) < 0 or max(ids) >= vocabulary:
                raise BadText(at, f"A token id is not within 0 and {vocabulary - 1}.")
            if len(ids) > room and truncate is None:
                raise BadText(
                    at,
                    f"The text has {len(ids)} tokens, and {self.model.name} reads {room}: send a shorter one, or "
                    "`truncate_prompt_tokens: -1` to have its beginning read.",
                )
            found.append(ids[:kept])
        return found

    def forward(
        self,
        ids: Sequence[Sequence[int]],
        declines: Sequence[bool] = (),
        left: Callable[[Ints, Forwarded], object] = lambda *_: None,
    ) -> Forwarded:
        """One pass for all of `ids`, each as of `Runner.ids`. Inputs that decline leave at no ramp; default: none.

        `left` is told of inputs as they leave, with what is known of all so far.
        """
        longest = max(map(len, ids)) + 2
        first, last = self.around
        padded = np.zeros((len(ids), longest), dtype=np.int64)
        there = np.zeros(padded.shape, dtype=np.bool_)
        for row, each in enumerate(ids):
            padded[row, : len(each) + 2] = [first, *each, last]
            there[row, : len(each) + 2] = True
        if self.exits is not None:
            tokens, so_far = there.sum(axis=1), _SoFar(len(ids), self.exits.ramps)

            def release(rows: Ints, values: NDArray[np.float32], at: int) -> None:
                left(rows, Forwarded(so_far.take(rows, values, at), tokens, so_far.exit_at))

            given = {IDS: padded, THERE: there}
            passed = self.exits.run(given, np.array(declines) if declines else None, release)
            return Forwarded(passed.chances, tokens, passed.exit_at)
        (values,) = self.session.run(None, {IDS: padded, THERE: there})
        return Forwarded(np.asarray(values, dtype=np.float32), there.sum(axis=1))


class _SoFar:
    """Answers of a pass that is under way."""

    def __init__(self, inputs: int, ramps: int) -> None:
        self.exit_at = np.full(inputs, ramps)
        self._values: NDArray[np.float32] | None = None

    def take(self, rows: Ints, values: NDArray[np.float32], at: int) -> NDArray[np.float32]:
        """All values so far, with those of `rows`."""
        if self._values is None:
            self._values = np.zeros((len(self.exit_at), values.shape[1]), dtype=np.float32)
        self._values[rows], self.exit_at[rows] = values, at
        return self._values

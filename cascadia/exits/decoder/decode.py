"""Decoding with an exit (Apparate section 3.4), of one sequence, greedily.

A token whose ramp is sure exits: its label is written, and its hidden state at the ramp is kept. The next token that
is not sure takes all kept states through the late layers with it, as one batch: the KV cache is then that of a full
pass, and the model's own labels of the exited tokens come out as well. These are fed back up to the first that differs;
what follows a token that the model would not have written says nothing. After `flush` exits in a row a token goes on
whatever its ramp says, and `settled` makes up what is owed at the end.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cascadia.exits.decoder.llama import Array, Cache, Llama

Sure = Callable[[float], bool]
"""Tells of a ramp's doubt (1 - its highest probability) whether the token exits."""


class Fed(NamedTuple):
    """One token's feedback: what the ramp said, with which doubt, and what the model says."""

    label: int
    doubt: float
    final: int
    exited: bool


@dataclass(slots=True, eq=False)
class Decoder:
    """A sequence of at most `positions` tokens. `ramp` layers stand before the ramp; None: there is none.

    Counted are rows through early and late layers, how often late layers were run, and tokens that `exited`.
    """

    model: Llama
    positions: int
    ramp: int | None
    sure: Sure
    flush: int = 8
    fed: list[Fed] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    early_rows: int = 0
    exited: int = 0
    late_rows: int = 0
    late_passes: int = 0
    cache: Cache = field(init=False)
    _owed: list[tuple[int, Array, int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.ramp is not None and not 0 < self.ramp < self.model.shape.layers:
            raise ValueError(f"a ramp behind {self.ramp} of {self.model.shape.layers} layers")
        if self.flush < 1:
            raise ValueError(f"flush after {self.flush} exits")
        self.cache = Cache(self.positions, self.model.shape)

    def prompt(self, tokens: list[int]) -> int:
        """Reads a prompt, which never exits; returns the first token of the answer."""
        at = list(range(len(tokens)))
        hidden = self.model.embedding[tokens]
        self.tokens = list(tokens)
        hidden = self.model.through(hidden, at, 0, self.model.shape.layers, self.cache)
        return int(self.model.logits(hidden[-1:])[0].argmax())

    def step(self, token: int) -> int:
        """Writes `token` behind the others, and returns the next."""
        at = len(self.tokens)
        self.tokens.append(token)
        hidden = self.model.embedding[[token]]
        layers = self.model.shape.layers
        early = layers if self.ramp is None else self.ramp
        hidden = self.model.through(hidden, [at], 0, early, self.cache)
        self.early_rows += 1
        if self.ramp is None:
            return int(self.model.logits(hidden)[0].argmax())
        label, doubt = told(self.model.logits(hidden)[0])
        self._owed.append((at, hidden, label, doubt))
        if len(self._owed) <= self.flush and self.sure(doubt):
            self.exited += 1
            return label
        return self._made_up(goes_on=True)

    def settled(self) -> None:
        """Makes up what exited tokens owe, at the end of an answer."""
        if self._owed:
            self._made_up(goes_on=False)

    def _made_up(self, goes_on: bool) -> int:
        """Late layers for all that is owed, in one batch; returns the model's label of the last. `goes_on`: the last
        did not exit."""
        assert self.ramp is not None
        at, states, labels, doubts = zip(*self._owed, strict=True)
        hidden = self.model.through(
            np.concatenate(states), list(at), self.ramp, self.model.shape.layers, self.cache
        )
        finals = self.model.logits(hidden).argmax(axis=1).tolist()
        self.late_rows += len(finals)
        self.late_passes += 1
        exited = len(finals) - goes_on
        for row, (label, doubt, final) in enumerate(zip(labels, doubts, finals, strict=True)):
            self.fed.append(Fed(label, doubt, final, row < exited))
            if row < exited and label != final:
                break
        self._owed.clear()
        return int(finals[-1])


def told(logits: Array) -> tuple[int, float]:
    """Label and doubt."""
    shifted = np.exp(logits - logits.max())
    return int(logits.argmax()), float(1.0 - 1.0 / shifted.sum())


def decoded(decoder: Decoder, prompt: list[int], count: int, stop: int | None = None) -> list[int]:
    """Tokens of an answer, `count` at most; ends behind `stop`."""
    written = [decoder.prompt(prompt)]
    while len(written) < count and written[-1] != stop:
        written.append(decoder.step(written[-1]))
    decoder.settled()
    return written

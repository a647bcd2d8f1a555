"""Quality of each stage's answer to each known prompt, and the score that the gate would have seen of it."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ScoredBy:
    """The judge that made a table's scores, as far as the table says. `kind` is `llm`, `embedding`, `probe`,
    `certainty`, or `check`: references, which no judge knows while serving. `scale` is what its scores went up to; they
    are 0-100 here.
    """

    kind: str | None = None
    model: str | None = None
    prompt_version: str | None = None
    scale: float = 100.0


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Verdicts (S, m) that a request waits for at a stage, and the part (0-1) of what it wrote that these read.

    `count` and `part` at a gate, which has the answer scored as well; `trials` and `trial_part` where no verdict sends
    a request on, so that only trials at exits are scored: at the last stage in use, and at one that accepts all.
    """

    count: Ints
    part: Floats
    trials: Ints
    trial_part: Floats

    def counted(self, row: Ints, gated: Bools) -> Ints:
        """Verdicts (S, n) of requests of the table's rows `row`, `gated` or not."""
        return np.where(gated, self.count[:, row], self.trials[:, row])

    def parts(self, row: Ints, gated: Bools) -> Floats:
        """Part (S, n) that these read."""
        return np.where(gated, self.part[:, row], self.trial_part[:, row])


@dataclass(frozen=True, slots=True, eq=False)
class QualityTable:
    """m prompts, S stages in cascade order.

    `score` (S, m), 0-100: what the gate sees. `quality` (S, m), 0-100: what the user cares about. The two are
    never mixed: thresholds compare scores, bounds speak of quality. `input_tokens` and `output_tokens` (S, m)
    are each model's own lengths. `foreseen` (S, m), 0-100, where there is a judge that reads the question alone: what
    it expects of each stage's answer before there is one. `left` (S, m): who left the stage at an exit; None: nobody.
    `verdicts`: those that a request waits for, on its trials too; None: one at each gate, of all that it wrote.
    `whole_tokens` (S, m): lengths without exits, where `output_tokens` have them; `drawn_tokens` (S, m): of the
    `shadow` (0-1) of the requests that are drawn as evidence and have a trial at every exit on their way to the end;
    `drawn_verdicts`: `verdicts` of these. `ahead` (S): stages whose budget of thinking the question alone decides;
    None: of none.
    """

    prompt_ids: tuple[str, ...]
    stages: tuple[str, ...]
    score: Floats
    _: KW_ONLY
    quality: Floats
    input_tokens: Floats
    output_tokens: Floats
    foreseen: Floats | None = None
    left: Bools | None = None
    verdicts: Asked | None = None
    whole_tokens: Floats | None = None
    drawn_tokens: Floats | None = None
    drawn_verdicts: Asked | None = None
    shadow: float = 0.0
    ahead: Bools | None = None
    scored_by: ScoredBy | None = None

    def __len__(self) -> int:
        return len(self.prompt_ids)

    @property
    def mean_tokens(self) -> Floats:
        """(S): mean length of answers, with those that are drawn."""
        left = self.output_tokens.mean(axis=1)
        drawn = left if self.drawn_tokens is None else self.drawn_tokens.mean(axis=1)
        return np.asarray((1.0 - self.shadow) * left + self.shadow * drawn)

    def as_left(self, whole: Ints, row: Ints, seed: int = 0) -> Ints:
        """Tokens (S, n) of answers that are `whole` long without exits, as exits leave them, prompt by prompt; who is
        drawn as evidence follows from the `seed`.
        """
        if self.whole_tokens is None:
            return whole
        ratio = (self.output_tokens / np.maximum(self.whole_tokens, 1.0))[:, row]
        if self.drawn_tokens is not None and (drawn := self.drawn(row, seed)) is not None:
            ratio = np.where(drawn, (self.drawn_tokens / np.maximum(self.whole_tokens, 1.0))[:, row], ratio)
        # An answer of no words still takes a token, its end, to write.
        return np.maximum(np.rint(whole * ratio), 1).astype(np.int64)

    def drawn(self, row: Ints, seed: int = 0) -> Bools | None:
        """(S, n): who is drawn as evidence at each stage, by the `seed`; None where nobody is."""
        if self.shadow <= 0 or self.drawn_tokens is None:
            return None
        return np.random.default_rng(seed).random((len(self.stages), len(row))) < self.shadow

    def verdicts_of(self, row: Ints, gated: Bools, drawn: Bools | None = None) -> Ints:
        """Verdicts (S, n) that requests wait for at each stage: at a gate where they are `gated`."""
        if self.verdicts is None:
            return gated.astype(np.int64)
        found = self.verdicts.counted(row, gated)
        if self.drawn_verdicts is None or drawn is None:
            return found
        return np.where(drawn, self.drawn_verdicts.counted(row, gated), found)

    def judged_of(self, wrote: Ints, row: Ints, gated: Bools, drawn: Bools | None = None) -> Ints:
        """Tokens (S, n) that the verdicts read of answers that are `wrote` long, trials included."""
        if self.verdicts is None:
            return wrote
        part = self.verdicts.parts(row, gated)
        if self.drawn_verdicts is not None and drawn is not None:
            part = np.where(drawn, self.drawn_verdicts.parts(row, gated), part)
        return np.rint(wrote * part).astype(np.int64)

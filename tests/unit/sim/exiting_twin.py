"""The token-by-token twin with exits: a sequence learns of its exit when it is there, and not before.

A sequence thinks; at each exit it writes a trial answer into its context. Where that is good enough it is done, else it
thinks on; at the end of its thinking it answers. Nobody tells it beforehand how long it will be.
"""

from dataclasses import dataclass

from cascadia_sim.iteration.timing import ReplicaTiming
from tests.unit.sim.twin import Batch, Sequence, Twin


@dataclass(frozen=True)
class Thinker:
    """`exits`: (tokens thought, tokens of the trial answer, whether it is good enough), in order; `whole`: tokens
    thought to the end, with the answer.
    """

    exits: tuple[tuple[int, int, bool], ...]
    whole: int


class ExitingTwin(Twin):
    """One replica for `thinkers`, in order of arrival."""

    def __init__(self, timing: ReplicaTiming, sequences: list[Sequence], thinkers: list[Thinker]) -> None:
        super().__init__(timing, sequences)
        self.thinkers = thinkers
        self.next_exit = [0] * len(thinkers)
        self.tried = [0] * len(thinkers)

    def end(self, batch: Batch) -> None:
        for s in batch.decoding + batch.completing:
            s.output_tokens = self.ends_now(s.number, s.written + 1)
        super().end(batch)

    def ends_now(self, number: int, written: int) -> int:
        """`written` where the sequence is done with its next token, else more than that."""
        thinker = self.thinkers[number]
        while self.next_exit[number] < len(thinker.exits):
            thought, trial, good = thinker.exits[self.next_exit[number]]
            at = thought + self.tried[number] + trial
            if written < at:
                return at + 1
            if good:
                return at
            self.tried[number] += trial
            self.next_exit[number] += 1
        return thinker.whole + self.tried[number]

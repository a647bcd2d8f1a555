"""Requests as the planner sees them: when they come, and how long each stage's answer is."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cascadia_sim.prefix_cache.shared_blocks import SharedBlocks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A trace joined with a quality table (n requests, S stages).

    `arrival_s` (n) starts at 0 and does not decrease; `row` (n) is each request's row of the quality table;
    `input_tokens` and `output_tokens` (S, n) are what each stage reads and would write; `prefix_tokens` (n)
    is how much of the input an engine's prefix cache can already hold; `blocks` which blocks prompts share, where the
    trace tells. `drawn` (S, n): who is drawn as evidence of a stage's exits; None where nobody is. `told_by_table`:
    lengths are the table's, so a question's own.
    """

    arrival_s: Floats
    row: Ints
    input_tokens: Ints
    output_tokens: Ints
    prefix_tokens: Ints
    blocks: SharedBlocks | None = None
    drawn: Bools | None = None
    told_by_table: bool = False

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def rate_rps(self) -> float:
        return len(self) / float(self.arrival_s[-1]) if len(self) > 1 and self.arrival_s[-1] > 0 else 0.0

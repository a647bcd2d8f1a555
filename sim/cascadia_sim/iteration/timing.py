"""Timing of one replica's iterations, as tables that the engine can look up.

Times are whole picoseconds (int64), so that sums are exact and order-independent: decode steps advanced in
closed form land on the same instant as the same steps taken one by one. Int64 spans 106 days.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cascadia_sim.iteration.scheduling import VLLM_V1, Scheduling

Ints = NDArray[np.int64]

PS_PER_S = 1_000_000_000_000
MINUTE_PS = 60 * PS_PER_S

TIMINGS_KEPT = 256
"""What is told of so many timings is remembered: a search simulates the same few some ten thousand times."""


def _nothing() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaTiming:
    """Cost tables and limits of one replica.

    An iteration that processes `t` tokens in all (each decoding sequence counts 1, prefill chunks their length),
    yields a next token for `s` sequences, decodes over `c` context tokens in total (KV entries read) and
    prefills chunks of q_i tokens that end at context k_i (attention pairs  p = sum_i q_i * k_i - q_i*(q_i-1)/2)
    takes

        token_ps[t] + sequence_ps[s] + context_ps * c + int(pair_ps * p)         (picoseconds)

    Beyond the end of `token_ps` (T entries) it goes on linearly with the last difference. `sequence_ps` has
    max_num_seqs + 1 entries.

    A replica with pipeline degree pp has `lanes` = pp stages and up to pp batches in flight. The tables hold the
    latency of a batch through all of them, of which each stage takes the same share. All batches draw on one
    queue, on max_num_seqs slots and on one KV cache of lanes x `kv_tokens`, a multiple of `block_size`.

    With speculation (`speculation.py`) each of the n sequences that decode has `draft_tokens[n]` tokens drafted, which
    are checked in the same iteration: they count in t, they take `draft_ps[n]` and `draft_context_ps` times them over c
    more, and of a sequence's drafts the first j are right with probability `acceptance`^j. Both tables have
    max_num_seqs + 1 entries, or none where the engine does not speculate. `most_drafts` is the most of them for one
    sequence in an iteration; 0 without speculation.

    A client has each token `client_ps` and `client_steps` of the request's decode steps later than the engine
    (`engine/client.py`).
    """

    token_ps: Ints
    sequence_ps: Ints
    context_ps: int
    pair_ps: float
    kv_tokens: int
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    chunked_prefill: bool
    lanes: int
    scheduling: Scheduling = VLLM_V1
    client_ps: int = 0
    client_steps: float = 0.0
    draft_tokens: Ints = field(default_factory=_nothing)
    draft_ps: Ints = field(default_factory=_nothing)
    draft_context_ps: int = 0
    acceptance: float = 0.0
    most_drafts: int = field(init=False)

    def __post_init__(self) -> None:
        # Asked for with each simulated replica, and of a search that is a hundred thousand times.
        object.__setattr__(self, "most_drafts", int(self.draft_tokens.max(initial=0)))

    def drafts_at(self, decoding: int) -> int:
        """Tokens drafted for each sequence while so many decode."""
        last = self.draft_tokens.size - 1
        return int(self.draft_tokens[min(decoding, last)]) if last >= 0 else 0

    def progress(self, drafts: int) -> float:
        """Mean tokens that a sequence moves on by in an iteration with so many drafts."""
        return (1.0 - self.acceptance ** (drafts + 1)) / (1.0 - self.acceptance)

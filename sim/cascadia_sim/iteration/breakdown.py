"""Breakdown of one iteration's time: what `build.replica_timing` charges, term by term.

Both walk the lists of `terms.py`, and both read terms that are tabulated from tables made alike, so the parts sum to
the charge up to its rounding to picoseconds (half of one a term, and half of one for each token of context).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cascadia_sim.errors import BadInput
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration.build import setting_of
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.terms import BY_CONTEXT, BY_PAIRS, BY_SEQUENCES, BY_TOKENS, tabulated
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming
from cascadia_sim.models.architecture import Architecture


class BeyondTheTables(BadInput):
    """An iteration that the engine's settings never allow."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """`decoding` sequences with `context_tokens` each and `drafts` to check, and a whole prompt of `prefill_tokens` (0:
    none) beside them.
    """

    decoding: int
    context_tokens: int
    prefill_tokens: int = 0
    drafts: int = 0

    @property
    def tokens(self) -> int:
        return self.decoding * (self.drafts + 1) + self.prefill_tokens

    @property
    def sequences(self) -> int:
        """Rows that yield a token: all that decode, and the prompt, which is done."""
        return self.decoding + (self.prefill_tokens > 0)

    @property
    def read_tokens(self) -> int:
        return self.decoding * self.context_tokens

    @property
    def pairs(self) -> float:
        """Queries times the keys that each attends to."""
        return self.prefill_tokens * (self.prefill_tokens + 1) / 2

    @property
    def kv_tokens(self) -> int:
        """KV entries that it needs."""
        return self.read_tokens + self.prefill_tokens


class Part(NamedTuple):
    name: str
    seconds: float


def breakdown(
    architecture: Architecture,
    gpu: Gpu,
    *,
    tp: int,
    pp: int,
    config: EngineConfig,
    gpus_per_node: int,
    iteration: Iteration,
) -> tuple[Part, ...]:
    """Every term of `iteration`, in the order of a layer; those that the model or the shape lacks are 0.

    With pipelining it is the time through all stages of one of the pp micro-batches that are under way at once.
    Raises `BeyondTheTables` where the engine would not run it.
    """
    check_within(config, iteration)
    setting = setting_of(architecture, gpu, tp=tp, pp=pp, config=config, gpus_per_node=gpus_per_node)
    most_tokens, most_sequences = most_of(config)
    read, pairs = np.array([float(iteration.read_tokens)]), np.array([iteration.pairs])
    return (
        *(Part(t.name, float(tabulated((t,), 1, most_tokens, setting)[iteration.tokens])) for t in BY_TOKENS),
        *(Part(t.name, float(t.seconds(read, setting)[0])) for t in BY_CONTEXT),
        *(Part(t.name, float(t.seconds(pairs, setting)[0])) for t in BY_PAIRS),
        *(
            Part(t.name, float(tabulated((t,), 0, most_sequences, setting)[iteration.sequences]))
            for t in BY_SEQUENCES
        ),
    )


class Most(NamedTuple):
    tokens: int
    sequences: int


def most_of(config: EngineConfig) -> Most:
    """The most that one iteration of a replica has: `config` counts by rank of attention."""
    return Most(
        config.max_num_batched_tokens * config.attention_dp, config.max_num_seqs * config.attention_dp
    )


def check_within(config: EngineConfig, iteration: Iteration) -> None:
    """Raises `BeyondTheTables` where `config` caps sequences or tokens below `iteration`'s, or has no such mixture."""
    if iteration.tokens < 1:
        raise BeyondTheTables("batch", "nothing to do", "give at least one sequence, or a prompt")
    most_tokens, most_sequences = most_of(config)
    if iteration.sequences > most_sequences:
        raise BeyondTheTables(
            "batch",
            f"{iteration.sequences:,} sequences are more than the {most_sequences:,} that max_num_seqs allows",
            "give fewer, the prompt counted",
        )
    if iteration.tokens > most_tokens:
        raise BeyondTheTables(
            "prefill",
            f"{iteration.tokens:,} tokens are more than the {most_tokens:,} that max_num_batched_tokens allows",
            "give a shorter prompt, the sequences counted",
        )
    if iteration.decoding and iteration.prefill_tokens and not config.enable_chunked_prefill:
        raise BeyondTheTables(
            "prefill",
            "without chunked prefill, prompts and decoding never share an iteration",
            "give either a batch or a prompt",
        )


def charged_s(timing: ReplicaTiming, iteration: Iteration) -> float:
    """Seconds that the simulator charges for `iteration`: the formula of `ReplicaTiming`."""
    picoseconds = (
        int(timing.token_ps[iteration.tokens])
        + int(timing.sequence_ps[iteration.sequences])
        + timing.context_ps * iteration.read_tokens
        + int(timing.pair_ps * iteration.pairs)
    )
    if timing.draft_ps.size:
        picoseconds += int(timing.draft_ps[iteration.decoding])
        picoseconds += iteration.drafts * timing.draft_context_ps * iteration.read_tokens
    return picoseconds / PS_PER_S

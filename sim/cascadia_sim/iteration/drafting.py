"""Additions of speculation to a replica's tables, and the number of tokens drafted at each number of sequences.

Of B sequences with k drafts each, beside passing B (k + 1) tokens in place of B:

- the LM head and the sampler take B (k + 1) rows in place of B;
- a draft model passes over all tokens of the iteration, whose KV entries it keeps too, then k - 1 times over B. Each of
  its k passes ends with an LM head for B rows and reads its own context.

Verification reads a sequence's context once for its k + 1 positions: bound by memory, as decoding is on GPUs.

vLLM takes a schedule of k by the number of sequences (`num_speculative_tokens_per_batch_size`), so k is what takes the
least time a token there, 0 where no draft pays. Other engines always draft the same number.
"""

from dataclasses import replace

import numpy as np

from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.speculation import Speculation, drafter, speculates
from cascadia_sim.iteration.terms import (
    BY_CONTEXT,
    BY_PAIRS,
    BY_SEQUENCES,
    ON_GPU,
    Setting,
    charged,
    table,
    tabulated,
)
from cascadia_sim.iteration.timing import PS_PER_S, Ints, ReplicaTiming
from cascadia_sim.models.quantization import weight_format

USUAL_CONTEXT_TOKENS = 1024
"""Context of a sequence for which a schedule is chosen; at shorter ones it is no worse than drafting nothing."""

ROWS = tuple(term for term in BY_SEQUENCES if term.name in ("LM head", "sampler"))
BY_DRAFTED = tuple(term for term in BY_SEQUENCES if term.name != "engine per sequence")


def drafting(timing: ReplicaTiming, setting: Setting, config: EngineConfig) -> ReplicaTiming:
    """`timing` with what `config.speculation` adds; as it is where replicas of this shape draft nothing."""
    speculation = config.speculation
    if speculation is None or not speculates(speculation, tp=setting.tp, pp=setting.pp):
        return timing
    most, k = timing.max_num_seqs, np.arange(speculation.tokens + 1)[:, None]
    sequences = np.arange(most + 1)
    rows = tabulated(ROWS, 0, most * (speculation.tokens + 1), setting)
    added = rows[sequences * (k + 1)] - rows[sequences]
    whole = replace(timing, acceptance=speculation.acceptance)
    if (own := _draft_setting(speculation, setting)) is not None:
        tokens = len(timing.token_ps) - 1
        one = np.ones(1)
        whole = replace(
            whole,
            token_ps=timing.token_ps + table(ON_GPU, 1, tokens, own),
            pair_ps=timing.pair_ps + float(charged(BY_PAIRS, one, own)[0]) * PS_PER_S,
            draft_context_ps=round(float(charged(BY_CONTEXT, one, own)[0]) * PS_PER_S),
        )
        added = added + k * tabulated(BY_DRAFTED, 0, most, own)
        added = added + np.maximum(k - 1, 0) * tabulated(ON_GPU, 0, most, own)
    added_ps = np.rint(added * PS_PER_S).astype(np.int64)
    added_ps[:, 0] = 0
    drafts = _drafts(speculation, whole, added_ps, by_batch=config.drafts_by_batch)
    if not drafts.any():
        return timing
    return replace(
        whole,
        draft_tokens=drafts,
        draft_ps=added_ps[drafts, sequences],
    )


def _draft_setting(speculation: Speculation, setting: Setting) -> Setting | None:
    """Setting of what drafts, on the same GPUs; a layer of the model's own is in its precision."""
    draft = drafter(speculation, setting.architecture)
    if draft is None:
        return None
    form = setting.form if speculation.method == "mtp" else weight_format(draft.quantization or "bf16")
    return replace(
        setting,
        architecture=draft,
        form=form,
        expert_parallel=setting.expert_parallel and draft.moe is not None,
    )


def _drafts(speculation: Speculation, timing: ReplicaTiming, added_ps: Ints, *, by_batch: bool) -> Ints:
    """Drafts of each sequence by how many decode, 0 to max_num_seqs; no more than an iteration has room for."""
    sequences = np.arange(timing.max_num_seqs + 1)
    room = timing.max_num_batched_tokens // np.maximum(sequences, 1) - 1
    if not by_batch:
        # One number, as its flag says: what a full batch has room for.
        return np.full(sequences.size, max(0, min(speculation.tokens, int(room[-1]))), np.int64)
    k = np.arange(speculation.tokens + 1)[:, None]
    tokens = np.minimum(sequences * (k + 1), len(timing.token_ps) - 1)
    steps = timing.token_ps[tokens] + timing.sequence_ps[sequences] + added_ps
    reading = (timing.context_ps + k * timing.draft_context_ps) * sequences * USUAL_CONTEXT_TOKENS
    each = np.array([[timing.progress(int(drafts))] for drafts in k[:, 0]])
    # Without reading: drafts must pay even at no context, where they save least, so that short requests are
    # never slower.
    allowed = (k <= room) & (steps / each <= steps[0])
    token_ps = np.where(allowed, (steps + reading) / each, np.inf)
    found = np.zeros(timing.max_num_seqs + 1, np.int64)
    most = speculation.tokens
    for n in sequences[1:]:
        # Never more where more decode: what a step of the tables would have otherwise is within their error.
        most = int(token_ps[: most + 1, n].argmin())
        found[n] = most
    return found

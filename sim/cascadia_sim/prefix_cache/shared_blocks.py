"""Blocks of tokens that the prompts of a workload share, so that a prefix cache can be simulated on them.

A request's blocks stand in the order of its tokens, each number standing for a block *and all before it* in its
prompt (Mooncake, FAST'25, section 4): equal numbers mean equal prefixes. `looked_up[i]` of them are the prompt's; the
rest, which only later requests can find, are what the answer adds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

HASH_TOKENS = 512
"""Tokens of a block in Mooncake's traces, and in the column `hash_ids`."""
SESSION_TOKENS = 128
"""Tokens of a block where a session's prompts are cut into blocks here."""


@dataclass(frozen=True, slots=True, eq=False)
class SharedBlocks:
    """Blocks of n requests: numbers 0..`distinct` - 1, request i's from `start[i]` to `start[i + 1]`.

    `most` (n): tokens of a prompt that can be found at most, or None where the blocks say all.
    """

    block: Ints
    start: Ints
    looked_up: Ints
    tokens: int
    distinct: int
    most: Ints | None = None

    def __len__(self) -> int:
        return self.looked_up.size

    def part(self, first: int, stop: int) -> "SharedBlocks":
        """Requests `first` to `stop` - 1, alone."""
        low, high = int(self.start[first]), int(self.start[stop])
        return SharedBlocks(
            self.block[low:high],
            self.start[first : stop + 1] - low,
            self.looked_up[first:stop],
            self.tokens,
            self.distinct,
            None if self.most is None else self.most[first:stop],
        )

    def repeated(self, times: int) -> "SharedBlocks":
        """`times` rounds end to end, none of which knows the prompts of another: like traffic, not the same."""
        rounds = np.arange(times, dtype=np.int64)[:, None]
        ends = (self.start[1:] + rounds * self.block.size).ravel()
        return SharedBlocks(
            (self.block + rounds * self.distinct).ravel(),
            np.concatenate([[0], ends]),
            np.tile(self.looked_up, times),
            self.tokens,
            self.distinct * times,
            None if self.most is None else np.tile(self.most, times),
        )


def of_hashes(hash_ids: Sequence[str], output_tokens: Ints) -> SharedBlocks:
    """`hash_ids[i]`: the hashes of request i's blocks, with blanks between them. Nobody shares what answers add."""
    split = [text.split() for text in hash_ids]
    looked_up = np.array([len(one) for one in split], np.int64)
    _, known = np.unique(np.array([h for one in split for h in one] or [""]), return_inverse=True)
    known = known.astype(np.int64)[: int(looked_up.sum())]
    shared = int(known.max(initial=-1)) + 1
    added = -(-output_tokens // HASH_TOKENS)
    start = np.concatenate([[0], np.cumsum(looked_up + added)])
    block = np.empty(int(start[-1]), np.int64)
    ours = _places(start[:-1], looked_up)
    block[ours] = known
    private = np.ones(block.size, np.bool_)
    private[ours] = False
    block[private] = shared + np.arange(int(private.sum()))
    return SharedBlocks(block, start, looked_up, HASH_TOKENS, shared + int(private.sum()))


def of_sessions(
    session_id: Sequence[str], input_tokens: Ints, output_tokens: Ints, prefix_tokens: Ints | None
) -> SharedBlocks:
    """A session's prompts begin with the one before and its answer, for as long as they grow by at least that much.

    A shorter one starts the session anew; a request without a session shares nothing. `prefix_tokens`, where the trace
    has them, are what can be found at most.
    """
    n = len(session_id)
    chain = np.empty(n, np.int64)
    last: dict[str, tuple[int, int]] = {}
    chains = 0
    whole = (input_tokens + output_tokens).tolist()
    for i, (session, reads) in enumerate(zip(session_id, input_tokens.tolist(), strict=True)):
        mine, ended = last.get(session, (-1, 0)) if session else (-1, 0)
        if mine < 0 or reads < ended:
            mine, chains = chains, chains + 1
        chain[i] = mine
        if session:
            last[session] = mine, whole[i]
    kept = (input_tokens + output_tokens) // SESSION_TOKENS
    longest = np.zeros(chains, np.int64)
    np.maximum.at(longest, chain, kept)
    base = np.concatenate([[0], np.cumsum(longest)])
    start = np.concatenate([[0], np.cumsum(kept)])
    block = np.arange(int(start[-1])) + np.repeat(base[chain] - start[:-1], kept)
    looked_up = input_tokens // SESSION_TOKENS
    return SharedBlocks(block, start, looked_up, SESSION_TOKENS, int(base[-1]), prefix_tokens)


def _places(first: Ints, counts: Ints) -> Ints:
    """first[0], first[0] + 1, ... for counts[0] numbers, then those of the next."""
    ends = np.cumsum(counts)
    return np.asarray(np.arange(int(counts.sum())) + np.repeat(first - ends + counts, counts))

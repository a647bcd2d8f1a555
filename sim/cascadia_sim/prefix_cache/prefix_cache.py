"""Prefix caches of a stage's replicas: how many tokens of each prompt are found, and need no prefill.

Each replica keeps the blocks (`shared_blocks.py`) of what it served in its KV memory and evicts the least recently
used, of a request's blocks the last first, as vLLM and SGLang do. A prompt finds its leading blocks up to the first
that is missing. Requests are looked up in order of arrival and kept from then on, running ones and their answers
included, so that what runs takes room from what is kept. Not followed: that a prompt's blocks are only there once it
was prefilled, and that running requests cannot be evicted.
"""

from collections.abc import Sequence

import numpy as np

from cascadia_sim.engine.dispatch import Replica
from cascadia_sim.prefix_cache.shared_blocks import Ints, SharedBlocks


def found_tokens(blocks: SharedBlocks, who: Ints, replicas: Sequence[Replica]) -> Ints:
    """Tokens of the prompts of requests `who`, in order of arrival, that the replica each of them goes to has kept.

    They take turns by the replicas' weights: where a dispatcher looks at loads, others meet, though as many.
    """
    from cascadia_sim.engine import kernel
    from cascadia_sim.engine.fleet import sites_of

    replica = np.zeros(who.size, np.int64)
    if len(replicas) > 1:
        kernel.take_turns(sites_of(replicas, (None,)), replica)
    capacity = np.array([capacity_blocks(each, blocks.tokens) for each in replicas], np.int64)
    return lru_tokens(blocks, who, replica, capacity)


def capacity_blocks(replica: Replica, block_tokens: int) -> int:
    t = replica.timing
    return t.kv_tokens * t.lanes // block_tokens


def lru_tokens(blocks: SharedBlocks, who: Ints, replica: Ints, capacity: Ints) -> Ints:
    """The same for requests `who` that go to `replica` [n], whose caches hold `capacity` [R] blocks."""
    from cascadia_sim.prefix_cache.kernel import look_up

    hits = np.zeros(who.size, np.int64)
    following, preceding = np.full((2, blocks.distinct + 1), -1, np.int64)
    by_replica = np.argsort(replica, kind="stable")
    bounds = np.searchsorted(replica[by_replica], np.arange(capacity.size + 1))
    for which in range(capacity.size):
        mine = by_replica[bounds[which] : bounds[which + 1]]
        if mine.size and capacity[which] > 0:
            served = who[mine]
            taken = np.zeros(mine.size, np.int64)
            look_up(
                blocks.block,
                blocks.start,
                blocks.looked_up,
                served,
                int(capacity[which]),
                following,
                preceding,
                taken,
            )
            hits[mine] = taken
    tokens = hits * blocks.tokens
    return tokens if blocks.most is None else np.minimum(tokens, blocks.most[who])

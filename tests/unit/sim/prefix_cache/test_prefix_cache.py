"""A prefix cache finds what a brute-force twin finds; nothing with no room, all that was seen with endless room."""

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia_sim.engine.dispatch import Replica
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.catalogue import architecture
from cascadia_sim.prefix_cache.prefix_cache import found_tokens, lru_tokens
from cascadia_sim.prefix_cache.shared_blocks import Ints, SharedBlocks, of_hashes, of_sessions
from cascadia_traces.formats.reading import read_trace
from tests.data import data_path
from tests.examples import examples
from tests.unit.sim.machines import machine

pytestmark = pytest.mark.slow

ENDLESS = 10**9


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def twin(blocks: SharedBlocks, who: Ints, replica: Ints, capacity: Ints) -> list[int]:
    """The same told slowly: a dictionary in order of use for each replica."""
    caches: list[OrderedDict[int, None]] = [OrderedDict() for _ in capacity]
    found = []
    for request, which in zip(who.tolist(), replica.tolist(), strict=True):
        cache, room = caches[which], int(capacity[which])
        mine = blocks.block[blocks.start[request] : blocks.start[request + 1]].tolist()
        leading = 0
        while leading < blocks.looked_up[request] and mine[leading] in cache:
            leading += 1
        found.append(leading * blocks.tokens)
        for block in reversed(mine):
            if room:
                if block not in cache and len(cache) == room:
                    cache.popitem(last=False)
                cache[block] = None
                cache.move_to_end(block)
    return found


@st.composite
def chains(draw: st.DrawFn) -> SharedBlocks:
    """Prompts of a tree of prefixes, with private blocks behind them."""
    texts, outputs = [], []
    for _ in range(draw(st.integers(1, 25))):
        path = draw(st.lists(st.integers(0, 2), max_size=5))
        texts.append(" ".join("".join(map(str, path[: i + 1])) for i in range(len(path))))
        outputs.append(draw(st.integers(1, 1200)))
    return of_hashes(texts, np.array(outputs, np.int64))


@settings(max_examples=examples(150), deadline=None)
@given(chains(), st.lists(st.integers(0, 12), min_size=1, max_size=3), st.integers(0, 5))
def test_it_finds_what_the_twin_finds(blocks: SharedBlocks, rooms: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    who = np.flatnonzero(random.random(len(blocks)) < 0.8).astype(np.int64)
    replica = random.integers(len(rooms), size=who.size)
    capacity = np.array(rooms, np.int64)
    assert lru_tokens(blocks, who, replica, capacity).tolist() == twin(blocks, who, replica, capacity)


def test_with_endless_room_all_that_was_seen_is_found() -> None:
    """Mooncake's own measure: leading blocks that some earlier request had."""
    blocks = of_hashes(["0 1 2", "0 1 3", "0 1 2 4", "", "5", "0"], ints(1, 1, 1, 1, 1, 1))
    who = np.arange(6)
    assert lru_tokens(blocks, who, np.zeros(6, np.int64), ints(ENDLESS)).tolist() == [
        0,
        1024,
        1536,
        0,
        0,
        512,
    ]


def test_without_room_nothing_is_found() -> None:
    blocks = of_hashes(["0 1", "0 1"], ints(1, 1))
    assert lru_tokens(blocks, np.arange(2), ints(0, 0), ints(0)).tolist() == [0, 0]


def test_answers_take_room_and_the_end_of_a_prompt_goes_first() -> None:
    """Six blocks: the first request's two and its answer's one; the second's three push out all but two of those."""
    blocks = of_hashes(["0 1 2", "9", "0 1 2"], ints(1, 1024, 1))
    found = [
        lru_tokens(blocks, np.arange(3), np.zeros(3, np.int64), ints(n)).tolist()[2] for n in (3, 4, 5, 6, 7)
    ]
    assert found == [0, 512, 1024, 1536, 1536]


def test_each_replica_knows_only_its_own() -> None:
    blocks = of_hashes(["0 1", "0 1", "0 1"], ints(1, 1, 1))
    assert lru_tokens(blocks, np.arange(3), ints(0, 1, 0), ints(ENDLESS, ENDLESS)).tolist() == [0, 0, 1024]


def test_a_session_grows_by_its_answers_until_it_starts_anew() -> None:
    reads, writes = ints(256, 640, 1280, 128, 400), ints(256, 128, 128, 100, 100)
    blocks = of_sessions(["a", "a", "a", "a", ""], reads, writes, None)
    found = lru_tokens(blocks, np.arange(5), np.zeros(5, np.int64), ints(ENDLESS))
    assert found.tolist() == [0, 512, 768, 0, 0]  # what was read and written before, in whole blocks
    limited = of_sessions(["a", "a", "a", "a", ""], reads, writes, ints(0, 100, 700, 0, 0))
    assert lru_tokens(limited, np.arange(5), np.zeros(5, np.int64), ints(ENDLESS)).tolist() == [
        0,
        100,
        700,
        0,
        0,
    ]


def test_a_part_of_a_trace_starts_with_nothing() -> None:
    blocks = of_hashes(["0 1", "0 1", "0 1 2"], ints(1, 1, 1))
    part = blocks.part(1, 3)
    assert len(part) == 2
    assert lru_tokens(part, np.arange(2), ints(0, 0), ints(ENDLESS)).tolist() == [0, 1024]


def test_a_second_round_finds_no_more_than_the_first() -> None:
    once = of_hashes(["0 1", "0 1", "2"], ints(1, 600, 1))
    thrice = once.repeated(3)
    alone = lru_tokens(once, np.arange(3), ints(0, 0, 0), ints(ENDLESS)).tolist()
    assert lru_tokens(thrice, np.arange(9), np.zeros(9, np.int64), ints(ENDLESS)).tolist() == alone * 3


@pytest.mark.parametrize("replicas", [1, 2, 5])
def test_turns_divide_sessions_among_replicas(replicas: int) -> None:
    """One session, one replica of R in turn: each of them knows the session as it was R requests ago."""
    n = 20
    reads = np.arange(1, n + 1, dtype=np.int64) * 1280
    blocks = of_sessions(["s"] * n, reads, np.full(n, 128, np.int64), None)
    found = found_tokens(blocks, np.arange(n), [Replica(machine(kv=10**7)) for _ in range(replicas)])
    ago = np.arange(n) - replicas
    assert found.tolist() == np.where(ago >= 0, reads[ago] + 128, 0).tolist()


@pytest.mark.data
def test_mooncakes_conversations_find_all_with_endless_room_and_little_with_a_replicas() -> None:
    trace = read_trace(data_path("traces/mooncake_conversation.jsonl"))
    assert trace.hash_ids is not None
    assert trace.prefix_tokens is not None
    blocks, who = of_hashes(trace.hash_ids, trace.output_tokens), np.arange(len(trace))
    endless = lru_tokens(blocks, who, np.zeros(len(trace), np.int64), ints(ENDLESS))
    assert (np.minimum(endless, trace.input_tokens - 1) == trace.prefix_tokens).all()
    model, config = architecture("meta-llama/Llama-3.1-70B"), EngineConfig(quantization="fp8")
    for tp, counts in ((8, {1: 0.066, 16: 0.085}), (4, {1: 0.047, 16: 0.066})):
        each = Replica(replica_timing(model, gpu("h100"), tp=tp, pp=1, config=config))
        for count, share in counts.items():
            found = np.minimum(found_tokens(blocks, who, [each] * count), trace.input_tokens - 1)
            assert found.sum() / trace.input_tokens.sum() == pytest.approx(share, abs=0.01)

"""Attention-DP splits the GPUs that there are; expert parallelism sends tokens, not sums."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import InvalidShape, replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.memory import kv_capacity_tokens, stage_memory
from cascadia_sim.iteration.parallel import Split, communication_seconds, dispatch_bytes, travelling_copies
from cascadia_sim.iteration.timing import ReplicaTiming
from cascadia_sim.models.catalogue import architecture

R1 = architecture("deepseek-ai/DeepSeek-R1")
QWEN = architecture("Qwen/Qwen3-235B-A22B")
H200 = gpu("h200")


def timing(attention_dp: int, whole: bool = False, tp: int = 8) -> ReplicaTiming:
    config = EngineConfig(attention_dp=attention_dp, enable_expert_parallel=whole, max_num_seqs=128)
    roomy = replace(H200, memory_bytes=10**13)
    return replica_timing(R1, roomy, tp=tp, pp=1, config=config)


def test_attention_dp_needs_no_more_gpus() -> None:
    """Weights of experts stay on all GPUs, those of attention are on each rank: as SGLang's --enable-dp-attention."""
    shared, ranked = (
        stage_memory(R1, tp=8, pp=1, config=EngineConfig(attention_dp=d))[0].weight_bytes for d in (1, 8)
    )
    attention = R1.layers * R1.attention_parameters + 2 * R1.embedding_parameters * 2
    assert shared < ranked < shared + attention
    assert Split(8, 8).tp == 8
    assert timing(8).lanes == timing(1).lanes


def test_latent_kv_is_kept_once_with_attention_dp_and_by_every_gpu_without() -> None:
    """On equal memory for the cache, eight ranks hold eight times the tokens."""
    bytes_each = [
        stage_memory(R1, tp=8, pp=1, config=EngineConfig(attention_dp=d))[0].kv_bytes_per_token
        for d in (1, 8)
    ]
    assert bytes_each[0] == bytes_each[1]
    roomy = replace(H200, memory_bytes=10**14)
    kept = [kv_capacity_tokens(R1, roomy, tp=8, pp=1, config=EngineConfig(attention_dp=d)) for d in (1, 8)]
    assert kept[1] / kept[0] == pytest.approx(8, rel=0.01)


def test_grouped_kv_is_split_by_heads_or_by_requests_alike() -> None:
    """Four KV heads over four GPUs, or four ranks with all heads each: the same bytes a token in all."""
    roomy = replace(H200, memory_bytes=10**14)
    kept = [kv_capacity_tokens(QWEN, roomy, tp=4, pp=1, config=EngineConfig(attention_dp=d)) for d in (1, 4)]
    assert kept[1] / kept[0] == pytest.approx(1, rel=0.01)


def test_engine_limits_are_those_of_a_rank() -> None:
    one, eight = timing(1), timing(8)
    assert eight.max_num_seqs == 8 * one.max_num_seqs
    assert eight.max_num_batched_tokens == 8 * one.max_num_batched_tokens


def test_ranks_share_the_reading_of_latent_contexts() -> None:
    """Without ranks every GPU reads every entry; with eight, its own requests' only, but for all heads."""
    assert timing(8).context_ps < timing(1).context_ps
    assert timing(8).context_ps >= timing(1).context_ps / 8


def test_attention_dp_has_to_divide_the_gpus() -> None:
    with pytest.raises(InvalidShape, match="adds none"):
        timing(3)


def test_a_dense_model_has_no_experts_to_spread() -> None:
    config = EngineConfig(enable_expert_parallel=True)
    with pytest.raises(InvalidShape, match="has no experts"):
        replica_timing(architecture("meta-llama/Llama-3.1-8B"), H200, tp=2, pp=1, config=config)


@given(st.integers(1, 16), st.sampled_from([2, 4, 8, 64]))
def test_a_token_travels_to_no_more_gpus_than_it_has_experts_nor_than_there_are(k: int, gpus: int) -> None:
    copies = travelling_copies(k, gpus)
    assert 0 < copies <= min(k, gpus - 1)
    assert travelling_copies(1, gpus) == pytest.approx((gpus - 1) / gpus)


def test_all_to_all_moves_two_hidden_states_a_copy() -> None:
    moe = R1.moe
    assert moe is not None
    split = Split(8, 8, True)
    assert dispatch_bytes(R1, split) == pytest.approx(2 * travelling_copies(moe.per_token, 8) * R1.hidden * 2)


def test_without_ranks_expert_parallelism_exchanges_as_much_as_slices() -> None:
    tokens = np.array([1.0, 64.0, 8192.0])
    sliced, whole = (communication_seconds(tokens, R1, H200, Split(8, 1, w), 8) for w in (False, True))
    assert (sliced == whole).all()


def test_ranks_of_one_gpu_save_the_all_reduce_of_attention() -> None:
    tokens = np.array([8192.0])
    shared, ranked = (communication_seconds(tokens, R1, H200, Split(8, d), 8)[0] for d in (1, 8))
    assert ranked == pytest.approx(shared / 2, rel=0.02)


@given(st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_times_grow_with_tokens_and_sequences(attention_dp: int, whole: bool) -> None:
    t = timing(attention_dp, whole)
    assert (np.diff(t.token_ps) >= 0).all()
    assert (np.diff(t.sequence_ps) >= 0).all()
    assert t.context_ps > 0

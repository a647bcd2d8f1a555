"""Layers that keep no KV entries, attend to a part, or compute nothing: counted and timed as what they are.

Configs hold the fields of the published config.json files, as far as size depends on them.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.breakdown import Iteration, breakdown
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.memory import kv_capacity_tokens, reserve_bytes, stage_memory
from cascadia_sim.iteration.moe import distinct_experts
from cascadia_sim.iteration.roofline import context_seconds
from cascadia_sim.iteration.timing import PS_PER_S
from cascadia_sim.models.architecture import Architecture, Blocks, SparseAttention
from cascadia_sim.models.catalogue import architecture
from cascadia_sim.models.config_json import ArchitectureError, from_config

H200 = gpu("h200")
CONFIG = EngineConfig(max_num_seqs=64)
HYBRIDS = (
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "Qwen/Qwen3.5-27B",
    "nvidia/Nemotron-H-8B-Base-8K",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "ibm-granite/granite-4.0-h-small",
    "ai21labs/AI21-Jamba-1.5-Mini",
    "LiquidAI/LFM2-8B-A1B",
)

GLM_5: dict[str, Any] = {
    "architectures": ["GlmMoeDsaForCausalLM"],
    "attention_bias": False,
    "dtype": "bfloat16",
    "ep_size": 1,
    "first_k_dense_replace": 3,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 6144,
    "index_head_dim": 128,
    "index_n_heads": 32,
    "index_topk": 2048,
    "indexer_rope_interleave": True,
    "intermediate_size": 12288,
    "kv_lora_rank": 512,
    "max_position_embeddings": 202752,
    "model_type": "glm_moe_dsa",
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_group": 1,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": 64,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 78,
    "num_key_value_heads": 64,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 2048,
    "qk_head_dim": 256,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "tie_word_embeddings": False,
    "topk_method": "noaux_tc",
    "v_head_dim": 256,
    "vocab_size": 154880,
}
LONGCAT: dict[str, Any] = {
    "architectures": ["LongcatFlashForCausalLM"],
    "attention_method": "MLA",
    "expert_ffn_hidden_size": 2048,
    "ffn_hidden_size": 12288,
    "hidden_size": 6144,
    "kv_lora_rank": 512,
    "max_position_embeddings": 131072,
    "mla_scale_kv_lora": True,
    "mla_scale_q_lora": True,
    "model_type": "longcat_flash",
    "moe_topk": 12,
    "n_routed_experts": 512,
    "num_attention_heads": 64,
    "num_layers": 28,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "routed_scaling_factor": 6.0,
    "v_head_dim": 128,
    "vocab_size": 131072,
    "zero_expert_num": 256,
    "zero_expert_type": "identity",
}


def test_longcats_experts_are_narrow_and_some_of_them_compute_nothing() -> None:
    """Read as 3,251 billion once: its experts took the width of the dense MLPs."""
    a = from_config(LONGCAT, "longcat")
    assert a.parameters == architecture("meituan-longcat/LongCat-Flash-Chat").parameters
    assert a.parameters / 1e9 == pytest.approx(560, rel=0.01)
    assert a.blocks == Blocks(attention=56, dense=56, mixture=28)
    assert a.moe is not None
    assert (a.moe.intermediate, a.moe.zero, a.moe.computed_per_token) == (2048, 256, 8.0)
    assert a.active_parameters / 1e9 == pytest.approx(27, rel=0.02)
    one, many = distinct_experts(np.array([1.0, 1e6]), a.moe)
    assert one == pytest.approx(8.0)
    assert many == pytest.approx(512)


def test_glm_5_is_read_from_its_own_config() -> None:
    a = from_config(GLM_5, architecture("zai-org/GLM-5").name)
    assert a == architecture("zai-org/GLM-5")
    assert a.sparse == SparseAttention(heads=32, dim=128, top=2048)


@pytest.mark.parametrize("model", HYBRIDS)
def test_only_layers_that_attend_keep_kv_entries(model: str) -> None:
    a = architecture(model)
    assert a.recurrent is not None
    assert a.attention_layers < a.recurrent.layers
    assert a.kv_bytes_per_token() == a.attention_layers * 2 * a.kv_heads * a.head_dim * 2
    (memory,) = stage_memory(a, tp=1, pp=1, config=CONFIG)
    assert memory.kv_bytes_per_token == pytest.approx(a.kv_bytes_per_token())
    per_token_s = a.kv_bytes_per_token() / (H200.hbm_bytes_per_s * H200.efficiency.kv_hbm)
    assert context_seconds(a, H200, 1, "auto") == pytest.approx(per_token_s)


@pytest.mark.parametrize(("model", "numbers"), [
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", 36 * (32 * 128 * 128 + 3 * (2 * 2048 + 4096))),
    ("Qwen/Qwen3.5-397B-A17B", 45 * (64 * 128 * 128 + 3 * (2 * 2048 + 8192))),
    ("nvidia/Nemotron-H-8B-Base-8K", 24 * (128 * 64 * 128 + 3 * (8192 + 2 * 8 * 128))),
    ("ibm-granite/granite-4.0-h-tiny", 36 * (48 * 64 * 128 + 3 * (3072 + 2 * 128))),
    ("ai21labs/Jamba-v0.1", 28 * 8192 * (16 + 3)),
    ("LiquidAI/LFM2-1.2B", 10 * 2048 * 2),
])  # fmt: skip
def test_the_others_keep_a_state_of_one_size(model: str, numbers: int) -> None:
    assert architecture(model).state_bytes_per_sequence() == 2 * numbers


def test_memory_is_kept_for_the_states_of_all_that_may_run() -> None:
    a = architecture("Qwen/Qwen3-Next-80B-A3B-Instruct")
    few, many = (EngineConfig(max_num_seqs=n, quantization="fp8") for n in (16, 144))
    logits = 8 * 128 * a.vocab / 2
    grown = reserve_bytes(a, tp=2, pp=1, config=many) - reserve_bytes(a, tp=2, pp=1, config=few)
    assert grown == pytest.approx(128 * a.state_bytes_per_sequence() / 2 + logits)
    room = [kv_capacity_tokens(a, H200, tp=2, pp=1, config=c) for c in (few, many)]
    assert (room[0] - room[1]) * a.kv_bytes_per_token() / 2 == pytest.approx(grown, rel=1e-4)


@pytest.mark.parametrize(
    "model", [*HYBRIDS, "deepseek-ai/DeepSeek-V3.2", "meituan-longcat/LongCat-Flash-Chat"]
)
def test_the_gpus_of_a_replica_hold_all_weights_between_them(model: str) -> None:
    """Beside what each has whole: routers, norms, latent down-projections, indexers, KV heads fewer than GPUs."""
    a = architecture(model)
    (alone,) = stage_memory(a, tp=1, pp=1, config=CONFIG)
    assert alone.weight_bytes == pytest.approx(a.weight_bytes(), rel=0.002)
    (shared,) = stage_memory(a, tp=8, pp=1, config=CONFIG)
    assert a.weight_bytes() * 0.998 <= 8 * shared.weight_bytes < 1.25 * a.weight_bytes()
    stages = stage_memory(a, tp=1, pp=2, config=CONFIG)
    assert sum(stage.weight_bytes for stage in stages) == pytest.approx(alone.weight_bytes, rel=0.06)


@pytest.mark.parametrize(
    "model", [*HYBRIDS, "deepseek-ai/DeepSeek-V3.2", "meituan-longcat/LongCat-Flash-Chat"]
)
def test_no_iteration_beats_the_peaks(model: str) -> None:
    """Reading what one token meets, and multiplying what 8,192 do: at the best of H200s with all the memory needed."""
    a, card = architecture(model), replace(H200, memory_bytes=10**13)
    t = replica_timing(a, card, tp=1, pp=1, config=EngineConfig(max_num_seqs=64))
    width = a.weight_bytes() / a.parameters
    met = (a.active_parameters - a.embedding_parameters) * width
    assert t.token_ps[1] / PS_PER_S > 0.9 * met / card.hbm_bytes_per_s
    flops = 2 * (a.active_parameters - a.embedding_parameters) * 8192
    assert t.token_ps[8192] / PS_PER_S > flops / max(card.bf16_flops, card.fp8_flops)
    if a.recurrent is not None:
        state_s = 2 * 64 * a.state_bytes_per_sequence() / card.hbm_bytes_per_s
        assert (t.sequence_ps[64] - t.sequence_ps[0]) / PS_PER_S > state_s


def test_long_contexts_cost_a_hybrid_less_than_a_model_that_attends_everywhere() -> None:
    def step_s(a: Architecture, context: int) -> float:
        parts = breakdown(
            a, H200, tp=2, pp=1, config=EngineConfig(quantization="fp8"), gpus_per_node=8,
            iteration=Iteration(decoding=16, context_tokens=context),
        )  # fmt: skip
        return sum(part.seconds for part in parts)

    hybrid, dense = architecture("Qwen/Qwen3.5-27B"), architecture("Qwen/Qwen3-32B")
    grown = [step_s(a, 100_000) - step_s(a, 1_000) for a in (hybrid, dense)]
    assert grown[0] < grown[1] / 3


def test_sparse_attention_reads_a_part_and_its_index_of_all() -> None:
    sparse, full = architecture("deepseek-ai/DeepSeek-V3.2"), architecture("deepseek-ai/DeepSeek-V3")
    assert sparse.parameters - full.parameters == 61 * (1536 * 64 * 128 + 7168 * (128 + 64))
    assert sparse.kv_bytes_per_token() - full.kv_bytes_per_token() == 61 * 128
    half = context_seconds(full, H200, 8, "auto") / 2
    index_s = 61 * max(
        128 / (H200.hbm_bytes_per_s * H200.efficiency.kv_hbm), 2 * 64 * 128 / H200.gemm_flops("fp8")
    )
    assert context_seconds(sparse, H200, 8, "auto") == pytest.approx(half + index_s)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"hybrid_override_pattern": "M-X*" * 13}, "hybrid_override_pattern has 'X'"),
        ({"hybrid_override_pattern": "M-*"}, "layers_block_type does not name each layer"),
        ({"moe_latent_size": 1024}, "moe_latent_size: experts in a latent space are not counted"),
    ],
)
def test_what_a_hybrid_says_amiss_is_one_line(changes: dict[str, Any], what: str) -> None:
    nemotron = {
        "model_type": "nemotron_h",
        "num_hidden_layers": 52,
        "hybrid_override_pattern": "M-M*" * 13,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "intermediate_size": 21504,
        "vocab_size": 131072,
    }
    assert from_config(nemotron, "n").attention_layers == 13
    with pytest.raises(ArchitectureError) as caught:
        from_config(nemotron | changes, "n")
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (
            LONGCAT | {"model_type": "longcat_flash_ngram", "ngram_vocab_size_ratio": 78},
            "longcat_flash_ngram",
        ),
        (GLM_5 | {"model_type": "deepseek_v4", "o_lora_rank": 1024, "hc_mult": 4}, "o_lora_rank"),
        (GLM_5 | {"model_type": "brand_new", "latent_kernel_size": 4}, "latent_kernel_size"),
    ],
)
def test_a_family_that_is_not_known_is_refused_where_it_has_sizes_of_its_own(
    config: dict[str, Any], named: str
) -> None:
    with pytest.raises(ArchitectureError, match=named) as caught:
        from_config(config, "new")
    assert "cannot be counted" in caught.value.what


def test_a_family_that_is_not_known_but_says_nothing_new_is_read() -> None:
    plain = {"model_type": "brand_new", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
    more = {
        "vocab_size": 100,
        "intermediate_size": 128,
        "rope_theta": 10000,
        "bos_token_id": 7,
        "pretraining_tp": 4,
    }
    assert from_config(plain | more, "new").layers == 2

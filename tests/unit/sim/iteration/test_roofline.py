"""Iteration times obey the bounds of the hardware, and their tables the contract of ReplicaTiming."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia_sim.calibration.catalogue import generic_calibration
from cascadia_sim.hardware.catalogue import gpu, known_gpus
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration import roofline
from cascadia_sim.iteration.build import DoesNotFit, InvalidShape, replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.moe import layer_seconds
from cascadia_sim.iteration.terms import BY_TOKENS, Setting, charged
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming
from cascadia_sim.models.catalogue import architecture
from cascadia_sim.models.quantization import weight_format

LLAMA = "meta-llama/Llama-3.1-"
MODELS = [LLAMA + "8B", LLAMA + "70B", "mistralai/Mixtral-8x7B-v0.1", "deepseek-ai/DeepSeek-R1"]
MODELS += ["openai/gpt-oss-20b", "google/gemma-3-27b-it", "HuggingFaceTB/SmolLM2-135M"]
BF16 = weight_format("bf16")


def roomy(name: str) -> Gpu:
    """The GPU with memory for any model, so that only its speed counts."""
    return replace(gpu(name), memory_bytes=10**14)


def timing(model: str, card: str = "h100", tp: int = 1, pp: int = 1, **config: object) -> ReplicaTiming:
    settings = EngineConfig(**config)  # type: ignore[arg-type]
    return replica_timing(architecture(model), roomy(card), tp=tp, pp=pp, config=settings)


def generic(model: str, card: str = "h100", tp: int = 1, pp: int = 1, **config: object) -> ReplicaTiming:
    """With constants that no measurement has moved, so that what is claimed follows from the equations."""
    known = generic_calibration(gpu(card), "vllm", "bf16")
    return timing(model, card, tp, pp, calibration=known, **config)


def test_a_gpu_multiplies_whole_tiles_and_a_cpu_the_rows_that_there_are() -> None:
    tokens = np.array([64.0, 65.0, 128.0, 129.0])
    assert roofline.tiled_rows(tokens, gpu("h100").tile_rows).tolist() == [64, 128, 128, 256]
    assert roofline.tiled_rows(tokens, gpu("cpu").tile_rows).tolist() == tokens.tolist()
    table = generic("HuggingFaceTB/SmolLM2-135M", "cpu").token_ps
    assert table[80] == pytest.approx(table[64] * 80 / 64, rel=0.1)
    assert table[80] < 0.8 * table[128]


@pytest.mark.parametrize("card", known_gpus())
@pytest.mark.parametrize("model", MODELS)
def test_tables_are_int64_positive_and_never_fall(model: str, card: str) -> None:
    t = timing(model, card)
    for table, length in ((t.token_ps, 8193), (t.sequence_ps, 257)):
        assert table.dtype == np.int64
        assert table.shape == (length,)
        assert (np.diff(table) >= 0).all()
    assert t.token_ps[0] > 0
    assert t.sequence_ps[0] == 0
    assert isinstance(t.context_ps, int)
    assert t.context_ps > 0
    assert t.pair_ps > 0


@given(
    st.sampled_from(MODELS),
    st.sampled_from(known_gpus()),
    st.sampled_from([None, "fp8", "awq-int4", "int8"]),
    st.sampled_from([(1, 1), (2, 1), (8, 1), (16, 1), (1, 2), (4, 3)]),
)
def test_every_combination_obeys_the_contract(
    model: str, card: str, quantization: str | None, shape: tuple[int, int]
) -> None:
    try:
        t = timing(
            model, card, *shape, quantization=quantization, max_num_batched_tokens=512, max_num_seqs=16
        )
    except InvalidShape:
        return
    assert (np.diff(t.token_ps) >= 0).all()
    assert t.lanes == shape[1]
    assert t.kv_tokens % t.block_size == 0


@pytest.mark.parametrize("card", known_gpus())
@pytest.mark.parametrize("quantization", [None, "fp8", "awq-int4"])
@pytest.mark.parametrize("tp", [1, 8])
def test_a_decode_step_reads_all_weights_at_best_at_the_peak(
    card: str, quantization: str | None, tp: int
) -> None:
    a, t = architecture(LLAMA + "70B"), timing(LLAMA + "70B", card, tp, quantization=quantization)
    read_bytes = (a.weight_bytes(quantization) - 2 * a.embedding_parameters) / tp
    step_s = (t.token_ps[1] + t.sequence_ps[1]) / PS_PER_S
    bound_s = read_bytes / gpu(card).hbm_bytes_per_s
    assert step_s >= bound_s
    if tp == 1 and quantization is None:
        assert step_s < 1.8 * bound_s


@pytest.mark.parametrize("card", known_gpus())
def test_prefill_is_no_faster_than_the_tensor_cores(card: str) -> None:
    a, t = architecture(LLAMA + "8B"), timing(LLAMA + "8B", card)
    matrices = a.active_parameters - a.embedding_parameters
    assert t.token_ps[8192] / PS_PER_S > 2 * matrices * 8192 / gpu(card).bf16_flops
    assert t.pair_ps / PS_PER_S > 4 * 32 * 4096 / gpu(card).bf16_flops


def test_doubling_the_gpus_halves_the_weights_read_but_not_the_fixed_costs() -> None:
    a, card = architecture(LLAMA + "70B"), replace(gpu("h100"), link_bytes_per_s=1e18, link_latency_s=0.0)
    still = replace(card.efficiency, kernel_s=0.0, attention_s=0.0, iteration_s=0.0)
    one_token = np.ones(1)
    seconds = [
        charged(
            BY_TOKENS,
            one_token,
            Setting(
                a, replace(card, efficiency=still), BF16, tp=tp, pp=1, gpus_per_node=8, kv_cache_dtype="auto"
            ),
        )[0]
        for tp in (1, 2, 4, 8)
    ]
    for wide, narrow in itertools.pairwise(seconds):
        assert narrow == pytest.approx(wide / 2, rel=0.01)
    steps = [int(timing(LLAMA + "70B", tp=tp).token_ps[1]) for tp in (1, 2, 4, 8)]
    assert all(wide / 2 < narrow < wide for wide, narrow in itertools.pairwise(steps))


def test_context_is_read_in_shares_until_each_gpu_has_one_kv_head() -> None:
    costs = [generic(LLAMA + "70B", tp=tp).context_ps for tp in (1, 8, 16)]
    assert costs[0] == pytest.approx(8 * costs[1], rel=1e-3)
    assert costs[2] == costs[1]


def test_context_costs_its_bytes() -> None:
    t, a, card = generic(LLAMA + "8B"), architecture(LLAMA + "8B"), gpu("h100")
    per_token_s = a.kv_bytes_per_token() / (card.hbm_bytes_per_s * card.efficiency.kv_hbm)
    assert t.context_ps == pytest.approx(per_token_s * PS_PER_S, rel=1e-4)
    halved = generic(LLAMA + "8B", kv_cache_dtype="fp8")
    assert halved.context_ps == pytest.approx(t.context_ps / 2, rel=1e-4)


def test_few_tokens_read_few_experts_and_many_read_all() -> None:
    a, card = architecture("mistralai/Mixtral-8x7B-v0.1"), gpu("h100")
    quiet = replace(card, efficiency=replace(card.efficiency, expert_compute=1e9))
    seconds = layer_seconds(np.array([1.0, 2.0, 4.0, 512.0]), a, quiet, BF16, 1, False)
    # 2 of 8 experts for one token; 8 (1 - 0.75^t) for t.
    assert seconds[1] / seconds[0] == pytest.approx(3.5 / 2, rel=0.01)
    assert seconds[2] / seconds[0] == pytest.approx(8 * (1 - 0.75**4) / 2, rel=0.01)
    assert seconds[3] / seconds[0] == pytest.approx(4, rel=0.06)


def test_a_mixture_steps_faster_than_a_dense_model_of_its_size_but_not_at_large_batches() -> None:
    mixture, dense = generic("mistralai/Mixtral-8x7B-v0.1"), generic("Qwen/Qwen1.5-32B")
    assert mixture.token_ps[1] < 0.6 * dense.token_ps[1]
    assert mixture.token_ps[64] > dense.token_ps[64]


def test_latent_attention_reads_less_context_than_heads_would() -> None:
    latent = architecture("deepseek-ai/DeepSeek-R1")
    heads = architecture(LLAMA + "405B")
    assert roofline.context_seconds(latent, gpu("h100"), 1, "auto") < 0.3 * roofline.context_seconds(
        heads, gpu("h100"), 1, "auto"
    )


def test_windows_save_context_and_pairs() -> None:
    windowed = architecture("openai/gpt-oss-20b")
    full = replace(windowed, window=None)
    card = gpu("h100")
    saved = roofline.context_seconds(windowed, card, 1, "auto") / roofline.context_seconds(
        full, card, 1, "auto"
    )
    assert saved == pytest.approx((12 + 12 * 128 / 4096) / 24)
    assert roofline.pair_seconds(windowed, card, 1) < 0.6 * roofline.pair_seconds(full, card, 1)


def test_fp8_doubles_speed_only_where_the_gpu_has_fp8_units() -> None:
    def prefill(card: str, quantization: str | None) -> int:
        return int(timing(LLAMA + "8B", card, quantization=quantization).token_ps[8192])

    assert prefill("h100", "fp8") < 0.75 * prefill("h100", None)
    assert prefill("a100", "fp8") == pytest.approx(prefill("a100", None), rel=0.02)


def test_int4_weights_speed_up_decode_but_not_prefill() -> None:
    plain, packed = timing(LLAMA + "70B"), timing(LLAMA + "70B", quantization="awq-int4")
    assert packed.token_ps[1] < 0.45 * plain.token_ps[1]
    assert packed.token_ps[8192] > plain.token_ps[8192]


def test_all_reduce_moves_two_messages_less_the_own_share() -> None:
    a, card = architecture(LLAMA + "70B"), replace(gpu("h100"), link_latency_s=0.0)
    tokens = np.array([8192.0])
    two, eight = (roofline.allreduce_seconds(tokens, a, card, tp, 8)[0] for tp in (2, 8))
    assert eight / two == pytest.approx((2 * 7 / 8) / (2 * 1 / 2))
    message_bytes = 8192 * 8192 * 2
    assert two == pytest.approx(161 * message_bytes / (card.link_bytes_per_s * card.efficiency.link))
    assert roofline.allreduce_seconds(tokens, a, card, 1, 8)[0] == 0


def test_tensor_parallelism_across_nodes_pays_for_the_network() -> None:
    a, config = architecture(LLAMA + "405B"), EngineConfig()
    within = replica_timing(a, roomy("h100"), tp=16, pp=1, config=config, gpus_per_node=16)
    across = replica_timing(a, roomy("h100"), tp=16, pp=1, config=config, gpus_per_node=8)
    assert across.token_ps[8192] > 2 * within.token_ps[8192]


def test_pipelining_keeps_the_latency_and_pays_for_each_boundary() -> None:
    whole, halves = timing(LLAMA + "70B", tp=4), timing(LLAMA + "70B", tp=4, pp=2)
    assert 1 < halves.token_ps[1] / whole.token_ps[1] < 1.02
    a, tokens = architecture(LLAMA + "70B"), np.array([8192.0])
    near = roofline.boundary_seconds(tokens, a, gpu("h100"), 4, 2, 8)[0]
    far = roofline.boundary_seconds(tokens, a, gpu("h100"), 8, 2, 8)[0]
    assert far > near > 0
    assert roofline.boundary_seconds(tokens, a, gpu("h100"), 8, 1, 8)[0] == 0


def test_an_uneven_split_waits_for_the_longest_stage() -> None:
    even, uneven = generic(LLAMA + "70B", pp=8), generic(LLAMA + "70B", pp=9)
    # 80 layers in 9 stages: 9 of 9 layers at most, 81 charged.
    assert uneven.token_ps[1] / even.token_ps[1] == pytest.approx(81 / 80, rel=0.002)
    assert uneven.context_ps / even.context_ps == pytest.approx(81 / 80, rel=1e-3)
    assert even.sequence_ps[1] == pytest.approx(8 * int(uneven.sequence_ps[1]), rel=1e-6)


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=5), st.floats(1e-9, 1e3))
def test_the_smooth_maximum_is_within_19_percent_above(values: list[float], other: float) -> None:
    a, b = np.array(values), np.full(len(values), other)
    smooth, high = roofline.smooth_max(a, b), np.maximum(a, b)
    assert (smooth >= high * (1 - 1e-12)).all()
    assert (smooth <= high * 2**0.25 * (1 + 1e-12)).all()


def test_the_same_question_is_answered_once() -> None:
    assert timing(LLAMA + "8B") is timing(LLAMA + "8B")


def test_a_refusal_is_not_remembered_as_an_answer() -> None:
    a = architecture(LLAMA + "70B")
    for _ in range(2):
        with pytest.raises(DoesNotFit):
            replica_timing(a, gpu("h100"), tp=1, pp=1, config=EngineConfig())


def test_sparse_attention_attends_to_its_share_and_indexes_everything() -> None:
    """GLM-5: 78 layers, each with 32 indexers of 128 numbers, attend to 2,048 of the reference's 4,096 tokens."""
    sparse, h100 = architecture("zai-org/GLM-5"), gpu("h100-sxm")
    whole = replace(sparse, sparse=None)
    index_flops = 78 * 2 * 32 * 128
    reading = 78 * 128 / (h100.hbm_bytes_per_s * h100.efficiency.kv_hbm)
    own_s = max(reading, index_flops / h100.gemm_flops("fp8"))
    assert roofline.index_seconds(sparse, h100) == pytest.approx(own_s)
    slow = replace(h100, fp8_flops=h100.fp8_flops / 1e4, bf16_flops=h100.bf16_flops / 1e4)
    multiplied = index_flops / slow.gemm_flops("fp8")
    assert multiplied > reading
    assert roofline.index_seconds(sparse, slow) == pytest.approx(multiplied)
    assert roofline.index_seconds(whole, h100) == 0.0
    decoding = [roofline.context_seconds(a, h100, 8, "auto") for a in (sparse, whole)]
    assert decoding[0] == pytest.approx(decoding[1] / 2 + own_s)
    pairs = [roofline.pair_seconds(a, h100, 8) for a in (sparse, whole)]
    assert pairs[0] == pytest.approx(pairs[1] + index_flops / h100.gemm_flops("fp8"))
    assert sparse.sparse is not None
    quarter = replace(sparse, sparse=replace(sparse.sparse, top=512))
    assert roofline.pair_seconds(quarter, h100, 8) == pytest.approx(
        pairs[1] / 4 + index_flops / h100.gemm_flops("fp8")
    )
    heads = 2 * (64 / 8) * (whole.head_dim + whole.v_head_dim) * 78
    assert pairs[1] == pytest.approx(heads / (h100.bf16_flops * h100.efficiency.attention_compute))

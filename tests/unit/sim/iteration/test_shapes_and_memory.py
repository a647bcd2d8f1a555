"""Which shapes split a model, which of them fit, and how much KV cache is left."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import DoesNotFit, InvalidShape, replica_timing, valid_shapes
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.memory import kv_capacity_tokens, needed_bytes, reserve_bytes, stage_memory
from cascadia_sim.iteration.sharding import kv_elements_per_gpu, stage_layers
from cascadia_sim.models.catalogue import architecture, known_models

R1 = "deepseek-ai/DeepSeek-R1"
LLAMA = "meta-llama/Llama-3.1-"
DEFAULT = EngineConfig()


def fits(model: str, card: str, tp: int, pp: int = 1, quantization: str | None = None) -> bool:
    config = EngineConfig(quantization=quantization)
    try:
        replica_timing(architecture(model), gpu(card), tp=tp, pp=pp, config=config)
    except DoesNotFit:
        return False
    return True


@pytest.mark.parametrize(
    ("model", "card", "tp", "pp", "quantization", "expected"),
    [
        (LLAMA + "8B", "h100", 1, 1, None, True),
        (LLAMA + "8B", "l4", 1, 1, None, True),
        (LLAMA + "70B", "h100", 1, 1, None, False),
        (LLAMA + "70B", "h100", 2, 1, None, True),
        (LLAMA + "70B", "h100", 4, 1, None, True),
        (LLAMA + "70B", "h100", 1, 1, "awq-int4", True),
        (LLAMA + "70B", "a100-40gb", 2, 1, None, False),
        (LLAMA + "70B", "a100-40gb", 4, 1, None, True),
        (LLAMA + "70B", "a100-40gb", 8, 1, None, True),
        (LLAMA + "405B", "h100", 8, 1, None, False),
        (LLAMA + "405B", "h100", 8, 2, None, True),
        (LLAMA + "405B", "h100", 8, 1, "fp8", True),
        (LLAMA + "405B", "h100", 4, 1, "fp8", False),
        (R1, "h100", 8, 1, None, False),
        (R1, "h100", 8, 2, None, True),
        (R1, "h200", 8, 1, None, True),
        (R1, "h200", 4, 1, None, False),
        (R1, "h100", 8, 1, "awq-int4", True),
        ("openai/gpt-oss-120b", "h100", 1, 1, None, True),
        ("Qwen/Qwen1.5-72B-Chat", "h100", 2, 1, None, False),
        ("Qwen/Qwen1.5-72B-Chat", "h100", 4, 1, None, True),
    ],
)
def test_what_fits_is_what_people_run(
    model: str, card: str, tp: int, pp: int, quantization: str | None, expected: bool
) -> None:
    assert fits(model, card, tp, pp, quantization) is expected


def test_seventy_billion_on_two_h100s_leave_little_room() -> None:
    a, card = architecture(LLAMA + "70B"), gpu("h100")
    barely = kv_capacity_tokens(a, card, tp=2, pp=1, config=DEFAULT)
    roomy = kv_capacity_tokens(a, card, tp=4, pp=1, config=DEFAULT)
    assert 2048 < barely < 40_000
    assert roomy > 10 * barely


def test_what_does_not_fit_says_by_how_much_per_gpu() -> None:
    with pytest.raises(DoesNotFit, match=r"145\.\d GB needed on a GPU, 77\.3 GB available") as caught:
        replica_timing(architecture(LLAMA + "70B"), gpu("h100"), tp=1, pp=1, config=DEFAULT)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.needed_bytes > copy.available_bytes > 77e9


def test_the_longest_request_must_fit_too() -> None:
    a, card = architecture(LLAMA + "70B"), gpu("h100")
    replica_timing(a, card, tp=2, pp=1, config=EngineConfig(max_model_len=8192))
    with pytest.raises(DoesNotFit):
        replica_timing(a, card, tp=2, pp=1, config=EngineConfig(max_model_len=65536))


def test_a_larger_smallest_cache_is_refused_sooner() -> None:
    a, card = architecture(LLAMA + "70B"), gpu("h100")
    with pytest.raises(DoesNotFit):
        replica_timing(a, card, tp=2, pp=1, config=DEFAULT, min_kv_tokens=100_000)


def test_the_lanes_of_a_pipeline_share_its_cache_in_whole_blocks() -> None:
    a, card = architecture(LLAMA + "70B"), gpu("h100")
    config = EngineConfig(block_size=32)
    whole = kv_capacity_tokens(a, card, tp=4, pp=3, config=config)
    timing = replica_timing(a, card, tp=4, pp=3, config=config)
    assert timing.lanes == 3
    assert timing.kv_tokens % 32 == 0
    assert whole / 3 - 33 < timing.kv_tokens <= whole / 3


def test_tensor_parallel_gpus_halve_kv_heads_until_each_has_one() -> None:
    a = architecture(LLAMA + "70B")
    assert [kv_elements_per_gpu(a, tp) // 256 for tp in (1, 2, 4, 8, 16)] == [8, 4, 2, 1, 1]


def test_latent_kv_is_on_every_tensor_parallel_gpu() -> None:
    a = architecture(R1)
    assert kv_elements_per_gpu(a, 1) == kv_elements_per_gpu(a, 8) == 576
    heads = architecture("Qwen/Qwen3-235B-A22B")
    assert kv_elements_per_gpu(heads, 4) == kv_elements_per_gpu(heads, 1) / 4


def test_fp8_kv_doubles_the_tokens() -> None:
    a, card = architecture(LLAMA + "8B"), gpu("h100")
    plain = kv_capacity_tokens(a, card, tp=1, pp=1, config=DEFAULT)
    halved = kv_capacity_tokens(a, card, tp=1, pp=1, config=EngineConfig(kv_cache_dtype="fp8"))
    assert halved == pytest.approx(2 * plain, abs=2)


@pytest.mark.parametrize("model", [LLAMA + "70B", R1, "openai/gpt-oss-120b", "google/gemma-2-9b-it"])
def test_the_stages_together_hold_all_weights(model: str) -> None:
    a = architecture(model)
    whole = sum(stage.weight_bytes for stage in stage_memory(a, tp=1, pp=1, config=DEFAULT))
    assert whole == pytest.approx(a.weight_bytes(), rel=1e-4)
    staged = sum(stage.weight_bytes for stage in stage_memory(a, tp=1, pp=3, config=DEFAULT))
    copies = a.embedding_parameters * 2 if a.tied_embeddings else 0
    assert staged == pytest.approx(whole + copies, rel=1e-9)


def test_tensor_parallelism_splits_all_but_norms_and_routers() -> None:
    a = architecture(LLAMA + "70B")
    one = stage_memory(a, tp=1, pp=1, config=DEFAULT)[0].weight_bytes
    eight = stage_memory(a, tp=8, pp=1, config=DEFAULT)[0].weight_bytes
    assert one / 8 < eight < 1.001 * one / 8


@given(st.integers(1, 200), st.integers(1, 64))
def test_stages_are_even_and_the_last_is_never_the_longest(layers: int, pp: int) -> None:
    if pp > layers:
        return
    stages = stage_layers(layers, pp)
    assert sum(stages) == layers
    assert len(stages) == pp
    assert max(stages) - min(stages) <= 1
    assert stages[-1] == min(stages)


def test_shapes_are_powers_of_two_in_a_node_and_any_depth_that_fits() -> None:
    shapes = valid_shapes(architecture(LLAMA + "70B"), 8, 12)
    assert {tp for tp, _ in shapes} == {1, 2, 4, 8}
    assert [pp for tp, pp in shapes if tp == 4] == [1, 2, 3]
    assert [pp for tp, pp in shapes if tp == 1] == list(range(1, 13))


def test_tensor_parallelism_crosses_nodes_only_when_asked() -> None:
    a = architecture(LLAMA + "405B")
    assert max(tp for tp, _ in valid_shapes(a, 8, 32)) == 8
    assert max(tp for tp, _ in valid_shapes(a, 8, 32, multi_node_tp=True)) == 32
    assert max(pp for _, pp in valid_shapes(a, 8, 32, max_pp=4)) == 4


def test_shapes_stay_within_heads_layers_and_gpus() -> None:
    assert valid_shapes(architecture("HuggingFaceTB/SmolLM2-135M"), 8, 2) == ((1, 1), (1, 2))
    assert {tp for tp, _ in valid_shapes(architecture("microsoft/Phi-3-medium-4k-instruct"), 8, 8)} == {1, 2}
    assert max(pp for _, pp in valid_shapes(architecture("meta-llama/Llama-3.2-1B"), 8, 999)) == 16
    assert valid_shapes(architecture(LLAMA + "8B"), 8, 0) == ()


@given(st.sampled_from(known_models()), st.integers(1, 8), st.integers(1, 24), st.booleans())
def test_every_valid_shape_builds_or_does_not_fit(
    model: str, gpus_per_node: int, max_gpus: int, across: bool
) -> None:
    a, card = architecture(model), gpu("h100")
    config = EngineConfig(max_num_seqs=8, max_num_batched_tokens=64)
    shapes = valid_shapes(a, gpus_per_node, max_gpus, across)
    assert (1, 1) in shapes
    for tp, pp in shapes[:: max(1, len(shapes) // 4)]:
        assert tp * pp <= max_gpus
        assert across or tp <= gpus_per_node
        try:
            timing = replica_timing(a, card, tp=tp, pp=pp, config=config, gpus_per_node=gpus_per_node)
        except DoesNotFit:
            least = -(-2048 // (pp * config.block_size)) * pp * config.block_size
            assert needed_bytes(a, tp=tp, pp=pp, config=config, kv_tokens=least) > 0.9 * 80 * 2**30
        else:
            assert timing.lanes * timing.kv_tokens >= 2048


@pytest.mark.parametrize(
    ("model", "tp", "pp", "what"),
    [
        (LLAMA + "8B", 3, 1, "tp 3 does not divide 32 attention heads"),
        ("microsoft/Phi-3-medium-4k-instruct", 4, 1, "over 10 KV heads"),
        (LLAMA + "8B", 1, 33, "pp 33 exceeds 32 layers"),
        (LLAMA + "8B", 0, 1, "tp 0, pp 1"),
    ],
)
def test_a_shape_that_cannot_split_the_model_is_refused(model: str, tp: int, pp: int, what: str) -> None:
    with pytest.raises(InvalidShape, match=what) as caught:
        replica_timing(architecture(model), gpu("h100"), tp=tp, pp=pp, config=DEFAULT)
    assert caught.value.instead


@pytest.mark.parametrize(
    ("model", "tp", "pp", "dp", "activation_elements"),
    [
        # Residual, normed input and a copy of the hidden 4,096; gate, up and product of the MLP's 14,336.
        (LLAMA + "8B", 1, 1, 1, 3 * 4096 + 3 * 14336),
        (LLAMA + "8B", 2, 1, 1, 3 * 4096 + 3 * 14336 / 2),
        (LLAMA + "8B", 1, 2, 1, 3 * 4096 + 3 * 14336),
        # Two of Mixtral's experts work on a token; both are wider together than a dense MLP would be.
        ("mistralai/Mixtral-8x7B-v0.1", 1, 1, 1, 3 * 4096 + 3 * 2 * 14336),
        # Eight ranks of attention bring their tokens to one MLP: 18,432 of the dense layers beats 8 experts of 2,048.
        (R1, 8, 1, 8, 3 * 7168 + 3 * 18432),
    ],
)
def test_what_is_kept_from_the_cache_is_activations_and_logits_of_a_full_batch(
    model: str, tp: int, pp: int, dp: int, activation_elements: float
) -> None:
    a = architecture(model)
    config = EngineConfig(max_num_batched_tokens=1000, max_num_seqs=10, attention_dp=dp)
    fixed = 1_500_000_000 + (411_041_792 if tp * pp > 1 else 0)
    logits = 10 * a.vocab * 4 * 2 * dp / tp
    kept = reserve_bytes(a, tp=tp, pp=pp, config=config)
    assert kept == pytest.approx(fixed + 1000 * 2 * activation_elements + logits, rel=1e-12)


def test_a_dense_layer_holds_its_matrices_and_two_norms() -> None:
    a = architecture(LLAMA + "8B")
    plain, int4 = [
        stage_memory(a, tp=1, pp=1, config=EngineConfig(quantization=q))[0].weight_bytes
        for q in (None, "awq-int4")
    ]
    layers = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    assert plain == 2 * (layers + 32 * 2 * 4096 + 2 * 128256 * 4096)
    assert plain - int4 > 1.4 * layers

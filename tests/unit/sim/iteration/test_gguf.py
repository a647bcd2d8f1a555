"""llama.cpp's weights, and what its engine can hold."""

import pytest

from cascadia.clients.hub.catalogue import model_named
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import DoesNotFit, InvalidShape, replica_timing
from cascadia_sim.iteration.engine_config import LLAMA_CPP, EngineConfig
from cascadia_sim.models.catalogue import architecture

LLAMA = architecture("meta-llama/Llama-3.1-8B-Instruct")


def test_weight_bytes_are_near_those_of_the_file() -> None:
    """Rows of 576 are no multiple of 256: its embedding fell back to Q8_0, 7 MB more than Q6_K."""
    small = architecture("HuggingFaceTB/SmolLM2-135M-Instruct")
    assert small.weight_bytes("q4_1") == pytest.approx(model_named("smollm2-135m").bytes, rel=0.1)


def test_fewer_bits_are_fewer_bytes_and_fewer_seconds() -> None:
    formats = ("f16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0")
    sizes = [LLAMA.weight_bytes(name) for name in formats]
    steps = [
        replica_timing(
            LLAMA, gpu("h100"), tp=1, pp=1, config=EngineConfig(engine=LLAMA_CPP, quantization=name)
        ).token_ps[1]
        for name in formats
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert steps == sorted(steps, reverse=True)


def test_its_slots_take_all_their_cache_when_it_starts() -> None:
    """An engine that shares its cache serves as many sequences one after another."""
    shared = EngineConfig(quantization="q4_k_m", max_num_seqs=64, max_model_len=8192)
    slots = EngineConfig(quantization="q4_k_m", max_num_seqs=64, max_model_len=8192, engine=LLAMA_CPP)
    assert replica_timing(LLAMA, gpu("l4"), tp=1, pp=1, config=shared).kv_tokens < 64 * 8192
    with pytest.raises(DoesNotFit):
        replica_timing(LLAMA, gpu("l4"), tp=1, pp=1, config=slots)


def test_a_model_is_not_split() -> None:
    config = EngineConfig(quantization="q4_k_m", engine=LLAMA_CPP)
    with pytest.raises(InvalidShape, match=r"llama\.cpp is started on one GPU"):
        replica_timing(LLAMA, gpu("h100"), tp=2, pp=1, config=config)

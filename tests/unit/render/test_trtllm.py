"""TensorRT-LLM: planned with its own calibrations, on whole replicas within a node, and started by trtllm-serve."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.errors import BadInput
from cascadia.domain.plan import ReplicaGroup
from cascadia.planner.problem.models import build_stages
from cascadia.planner.spec.file import check_spec
from cascadia.planner.spec.models import StageSpec
from cascadia.planner.tables.shapes import shapes
from cascadia.render import render
from cascadia.render.engine_args import Launch, Ranks, arguments
from cascadia.render.memory_share import free_share
from cascadia.render.notes import notes
from cascadia.render.targets import targets_for
from cascadia.testing.plans import plan, stage
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import calibration_of, replica_timing
from cascadia_sim.iteration.engine_config import TRTLLM, EngineConfig
from cascadia_sim.iteration.memory import kv_capacity_tokens, reserve_bytes, stage_memory
from cascadia_sim.models.catalogue import architecture
from tests.unit.planner.specs import changed

LLAMA = "meta-llama/Llama-3.3-70B-Instruct"
CONFIG = EngineConfig(
    engine=TRTLLM,
    max_num_seqs=64,
    max_num_batched_tokens=4096,
    max_model_len=8192,
    quantization="fp8",
    block_size=32,
)
LAUNCH = Launch(
    TRTLLM,
    LLAMA,
    LLAMA + "-FP8",
    served_name="small",
    config=CONFIG,
    gpu=gpu("h200"),
    tp=2,
    pp=1,
    host="0.0.0.0",
    port=8000,
    drain_s=120,
)
H200 = Cluster((Pool("h200", "h200-sxm", 2, 8, 3.5),))


def flags(launch: Launch) -> dict[str, str]:
    return {name: value for name, _, value in (a.partition("=") for a in arguments(launch)[1:])}


def test_it_starts_as_it_was_simulated() -> None:
    assert arguments(LAUNCH)[0] == LLAMA + "-FP8"
    found = flags(LAUNCH)
    assert (found["--tp_size"], found["--pp_size"]) == ("2", "1")
    assert (found["--max_batch_size"], found["--max_num_tokens"]) == ("64", "4096")
    assert found["--max_seq_len"] == "8192"
    assert "--enable_chunked_prefill" in found
    assert "--ep_size" not in found


def test_its_cache_is_as_large_as_was_planned() -> None:
    """Its share is of what weights and activations leave, not of the GPU."""
    a, card = architecture(LLAMA), gpu("h200")
    share = float(flags(LAUNCH)["--kv_cache_free_gpu_memory_fraction"])
    (memory,) = stage_memory(a, tp=2, pp=1, config=CONFIG)
    free = card.memory_bytes - memory.weight_bytes - reserve_bytes(a, tp=2, pp=1, config=CONFIG)
    tokens = share * free / memory.kv_bytes_per_token
    assert tokens == pytest.approx(kv_capacity_tokens(a, card, tp=2, pp=1, config=CONFIG), rel=2e-3)
    assert free_share("./mine/config.json", card, tp=2, pp=1, config=CONFIG) == 0.9


def test_a_replica_in_pieces_is_refused() -> None:
    with pytest.raises(BadInput, match="needs MPI"):
        arguments(replace(LAUNCH, ranks=Ranks(2, "0", "node", 29500)))


def test_only_shapes_that_fit_a_node_whole_are_planned() -> None:
    found = shapes("small", architecture(LLAMA), CONFIG, H200, 4096, needless_too=True)
    assert {s.gpus for s in found} == {1, 2, 4, 8}
    others = shapes(
        "small", architecture(LLAMA), EngineConfig(quantization="fp8"), H200, 4096, needless_too=True
    )
    assert {s.gpus for s in others} > {1, 2, 4, 8}
    amd = Cluster((Pool("mi", "mi300x", 1, 8, 2.5),))
    with pytest.raises(BadInput, match="trtllm does not run on mi300x"):
        shapes("small", architecture(LLAMA), CONFIG, amd, 4096)


@pytest.mark.parametrize(
    ("card", "precision"), [("h200-sxm", "fp8"), ("b200-sxm", "fp8"), ("b200-sxm", "nvfp4")]
)
def test_it_is_timed_with_its_own_calibrations(card: str, precision: str) -> None:
    config = EngineConfig(engine=TRTLLM, quantization=precision)
    found = calibration_of(architecture(LLAMA), gpu(card), config)
    assert (found.engine, found.gpu, found.precision) == (TRTLLM, card, precision)
    own = replica_timing(architecture(LLAMA), gpu(card), tp=4, pp=1, config=config)
    vllm = replica_timing(
        architecture(LLAMA), gpu(card), tp=4, pp=1, config=EngineConfig(quantization=precision)
    )
    assert own.token_ps[64] != vllm.token_ps[64]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kv_cache_dtype": "fp8"}, "kv_cache_dtype is no flag of trtllm-serve"),
        ({"attention_dp": 2}, "attention_dp is no flag of trtllm-serve"),
        ({"quantization": "q4_k_m"}, "q4_k_m is a format of llama.cpp"),
        ({"engine": "tensorrt-llm"}, "'tensorrt-llm', which is not known"),
    ],
)
def test_what_it_cannot_be_told_is_one_line(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_spec(
            changed("stages.0", {"name": "a", "model": LLAMA, "engine": "trtllm"} | changes), "cascade.yaml"
        )
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_blocks_of_its_cache_are_its_own() -> None:
    spec = StageSpec.model_validate({"name": "a", "model": LLAMA, "engine": "trtllm", "quantization": "fp8"})
    (found,) = build_stages((spec,), Path(), "cascade.yaml")
    assert found.config.block_size == 32


def test_every_target_starts_it() -> None:
    group = ReplicaGroup("h200", 2, 1, 2, 1.0)
    found = plan(
        [
            stage(
                "only",
                group,
                model=LLAMA,
                engine="trtllm",
                config=CONFIG,
                quantization="fp8",
                weights=LLAMA + "-FP8",
            )
        ],
        H200,
    )
    assert set(targets_for(found)) == {"kubernetes", "compose", "local", "helm-values"}
    values = yaml.safe_load(render(found, H200, "helm-values"))
    (unit,) = values["stages"]
    assert (unit["engine"], unit["engineVersion"]) == ("trtllm", "1.2.1")
    assert unit["groups"][0]["image"] == "nvcr.io/nvidia/tensorrt-llm/release:1.2.1"
    assert unit["groups"][0]["command"] == ["trtllm-serve", "serve"]
    for target in ("kubernetes", "compose", "local"):
        text = render(found, H200, target)
        assert "trtllm-serve" in text
        assert "--tp_size=2" in text
        assert "/health" in text
    assert notes(found) == ()


def test_a_checkpoint_without_fp8_is_named() -> None:
    group = ReplicaGroup("h200", 2, 1, 2, 1.0)
    found = plan(
        [stage("only", group, model=LLAMA, engine="trtllm", config=CONFIG, quantization="fp8")], H200
    )
    (note,) = notes(found)
    assert "planned with fp8, which TensorRT-LLM reads from a checkpoint" in note

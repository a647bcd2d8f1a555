"""Every term of an iteration, and every part of the memory, is what it was for models, GPUs and shapes of all kinds.

Known answers and measured runs say which of these are right; this says that none moved unseen. Where one is meant to:

    python -m tests.unit.sim.iteration.test_golden
"""

import json
from dataclasses import replace

import pytest

from cascadia_sim.hardware.catalogue import gpu, known_gpus
from cascadia_sim.hardware.own import OwnGpu, Tflops, hardware_of
from cascadia_sim.iteration.breakdown import Iteration, breakdown
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.memory import kv_capacity_tokens, needed_bytes, reserve_bytes, stage_memory
from cascadia_sim.iteration.sharding import valid_shapes
from cascadia_sim.models.catalogue import architecture, known_models
from tests.data import ROOT

FILE = ROOT / "tests/golden/sim/iterations.json"
LLAMA = "meta-llama/Llama-3.1-8B"
R1 = "deepseek-ai/DeepSeek-R1"
MIXTRAL = "mistralai/Mixtral-8x7B-v0.1"
OSS = "openai/gpt-oss-20b"
ITERATIONS = (Iteration(24, 1500), Iteration(3, 70_000), Iteration(5, 300, 700), Iteration(0, 0, 1800))
SMALL = EngineConfig(max_num_seqs=64, max_num_batched_tokens=2048)
OWN = OwnGpu(
    "own-80", 80, 2400, Tflops(bf16=700, fp8=1400, int8=1300), link_gb_s=300, inter_node_gb_s=40, vendor="amd"
)

CASES: dict[str, tuple[str, str, int, int, EngineConfig]] = (
    {f"{model} on h100": (model, "h100", 1, 1, SMALL) for model in known_models()[::4]}
    | {f"llama on {card}": (LLAMA, card, 2, 1, SMALL) for card in (*known_gpus(), OWN.name)}
    | {
        f"{model} as {tp}x{pp}": (model, card, tp, pp, SMALL)
        for model, card in ((LLAMA, "h100"), (R1, "h200"), (MIXTRAL, "a100"), (OSS, "l40s"))
        for tp, pp in ((2, 1), (8, 1), (16, 1), (1, 3), (4, 5))
    }
    | {
        f"{model} at {precision}, cache {cache}": (
            model, "h100", 2, 2, replace(SMALL, quantization=precision, kv_cache_dtype=cache)
        )
        for model in (LLAMA, MIXTRAL)
        for precision, cache in (
            ("fp8", "fp8"), ("awq-int4", "auto"), ("int8", "auto"), ("int4-experts", "auto"), ("q4_k_m", "auto"),
        )
    }
    | {
        f"{model} with attention-DP {ranks}, expert-parallel {spread}": (
            model, "h200", 8, 1, replace(SMALL, attention_dp=ranks, enable_expert_parallel=spread)
        )
        for model in (R1, MIXTRAL)
        for ranks, spread in ((2, False), (8, True), (1, True))
    }
    | {f"llama by {engine}": (LLAMA, "h100", 2, 1, replace(SMALL, engine=engine)) for engine in ("sglang", "trtllm")}
)  # fmt: skip


def figures(model: str, card: str, tp: int, pp: int, config: EngineConfig) -> str:
    """Seconds of the terms by iteration, then bytes and tokens of memory; nine digits of each."""
    a, g = architecture(model), hardware_of(OWN) if card == OWN.name else gpu(card)
    shape = {"tp": tp, "pp": pp, "config": config}
    found: list[float] = []
    for one in ITERATIONS:
        found += [
            part.seconds
            for part in breakdown(a, g, **shape, gpus_per_node=8, iteration=one)  # type: ignore[arg-type]
        ]
    for stage in stage_memory(a, **shape):  # type: ignore[arg-type]
        found += stage
    found += [
        reserve_bytes(a, **shape),  # type: ignore[arg-type]
        kv_capacity_tokens(a, g, **shape),  # type: ignore[arg-type]
        needed_bytes(a, **shape, kv_tokens=10_000),  # type: ignore[arg-type]
        len(list(valid_shapes(a, 16, 8))),
    ]
    return " ".join(f"{figure:.9g}" for figure in found)


@pytest.mark.parametrize("name", CASES)
def test_terms_and_memory_are_what_they_were(name: str) -> None:
    kept = json.loads(FILE.read_text())[name]
    assert read(figures(*CASES[name])) == pytest.approx(read(kept), rel=1e-8)


def read(line: str) -> list[float]:
    return [float(figure) for figure in line.split()]


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: figures(*case) for name, case in CASES.items()}, indent=0) + "\n")

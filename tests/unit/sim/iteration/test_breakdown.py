"""The parts of an iteration are what is charged for it, and each lies where the hardware says."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.iteration.breakdown import BeyondTheTables, Iteration, breakdown, charged_s
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.sharding import InvalidShape
from cascadia_sim.iteration.terms import BY_CONTEXT, BY_PAIRS, BY_SEQUENCES, BY_TOKENS
from cascadia_sim.iteration.timing import PS_PER_S
from cascadia_sim.models.catalogue import architecture
from tests.data import ROOT

LLAMA = "meta-llama/Llama-3.1-"
MODELS = [LLAMA + "8B", "mistralai/Mixtral-8x7B-v0.1", "deepseek-ai/DeepSeek-R1", "openai/gpt-oss-20b"]
CONFIG = EngineConfig(max_num_seqs=128, max_num_batched_tokens=1024)


def roomy(name: str) -> Gpu:
    """The GPU with memory for any model, so that only its speed counts."""
    return replace(gpu(name), memory_bytes=10**14)


def parts(
    model: str,
    iteration: Iteration,
    card: str = "h100",
    tp: int = 1,
    pp: int = 1,
    config: EngineConfig = CONFIG,
) -> dict[str, float]:
    found = breakdown(
        architecture(model), roomy(card), tp=tp, pp=pp, config=config, gpus_per_node=8, iteration=iteration
    )
    assert len({part.name for part in found}) == len(found)
    return {part.name: part.seconds for part in found}


@given(
    st.sampled_from(MODELS),
    st.sampled_from(["h100", "a100", "l40s", "mi300x"]),
    st.sampled_from([None, "fp8", "awq-int4"]),
    st.sampled_from([(1, 1), (2, 1), (8, 1), (16, 1), (1, 2), (4, 3)]),
    st.sampled_from([(1, False), (1, True), (2, True), (4, False)]),
    st.integers(0, 127),
    st.integers(1, 8000),
    st.integers(0, 800),
)
def test_parts_sum_to_what_the_simulator_charges(
    model: str,
    card: str,
    quantization: str | None,
    shape: tuple[int, int],
    ranks: tuple[int, bool],
    decoding: int,
    context_tokens: int,
    prefill_tokens: int,
) -> None:
    iteration = Iteration(max(decoding, prefill_tokens == 0), context_tokens, prefill_tokens)
    (tp, pp), (attention_dp, expert_parallel) = shape, ranks
    config = replace(
        CONFIG,
        quantization=quantization,
        attention_dp=attention_dp,
        enable_expert_parallel=expert_parallel,
    )
    try:
        timing = replica_timing(architecture(model), roomy(card), tp=tp, pp=pp, config=config)
    except InvalidShape:
        return
    found = parts(model, iteration, card, tp, pp, config)
    assert min(found.values()) >= 0
    # Half a picosecond a table, half of one for each token of context, and one where pairs are cut.
    rounding_s = (2 + iteration.read_tokens / 2) / PS_PER_S
    assert sum(found.values()) == pytest.approx(charged_s(timing, iteration), rel=1e-12, abs=rounding_s)


def test_the_engine_takes_as_long_as_the_parts_say() -> None:
    """A prompt alone, then two tokens of eight sequences whose prompts were prefilled together."""
    timing = replica_timing(architecture(LLAMA + "8B"), roomy("h100"), tp=1, pp=1, config=CONFIG)
    timing = replace(timing, client_ps=0, client_steps=0.0)
    ones = np.ones(8, np.int64)
    lone = simulate_replica(timing, 0 * ones[:1], 500 * ones[:1], ones[:1], 0 * ones[:1])
    prompt = sum(parts(LLAMA + "8B", Iteration(0, 0, 500)).values())
    assert lone.finish_ps[0] / PS_PER_S == pytest.approx(prompt, rel=1e-9)
    together = simulate_replica(timing, 0 * ones, 100 * ones, 3 * ones, 0 * ones)
    steps = [sum(parts(LLAMA + "8B", Iteration(8, context)).values()) for context in (101, 102)]
    took = (together.finish_ps - together.first_token_ps) / PS_PER_S
    # Two steps over some 800 tokens of context each, at most half a picosecond off for each of them.
    assert took == pytest.approx(np.full(8, sum(steps)), abs=1e-9)


def test_a_lone_gpu_neither_reduces_nor_hands_on() -> None:
    found = parts(LLAMA + "8B", Iteration(16, 1000))
    assert found["all-reduce"] == found["pipeline boundary"] == found["experts"] == 0
    assert parts(LLAMA + "8B", Iteration(16, 1000), tp=2)["all-reduce"] > 0
    assert parts(LLAMA + "8B", Iteration(16, 1000), pp=2)["pipeline boundary"] > 0


def test_decoding_reads_context_and_a_prompt_multiplies_pairs() -> None:
    decode, prompt = parts(LLAMA + "8B", Iteration(16, 1000)), parts(LLAMA + "8B", Iteration(0, 0, 512))
    assert decode["prefill attention"] == prompt["KV reading"] == 0
    assert parts(LLAMA + "8B", Iteration(16, 2000))["KV reading"] == pytest.approx(2 * decode["KV reading"])
    longer = parts(LLAMA + "8B", Iteration(0, 0, 1024))["prefill attention"]
    assert longer == pytest.approx(4 * prompt["prefill attention"], rel=0.002)


def test_experts_take_the_place_of_a_dense_mlp() -> None:
    found = parts("mistralai/Mixtral-8x7B-v0.1", Iteration(16, 1000))
    assert found["up"] == found["down"] == 0
    assert found["experts"] > found["qkv"]


@pytest.mark.parametrize(
    ("iteration", "config", "what"),
    [
        (Iteration(0, 0), CONFIG, "nothing to do"),
        (Iteration(129, 10), CONFIG, "max_num_seqs"),
        (Iteration(128, 10, 5), CONFIG, "max_num_seqs"),
        (Iteration(100, 10, 925), CONFIG, "max_num_batched_tokens"),
        (Iteration(257, 10), replace(CONFIG, attention_dp=2), "256 that max_num_seqs allows"),
        (Iteration(1, 10, 5), replace(CONFIG, enable_chunked_prefill=False), "chunked prefill"),
    ],
)
def test_what_the_engine_never_runs_is_refused(iteration: Iteration, config: EngineConfig, what: str) -> None:
    with pytest.raises(BeyondTheTables, match=what):
        parts(LLAMA + "8B", iteration, config=config)


def test_the_page_on_explaining_names_every_term() -> None:
    page = (ROOT / "docs" / "how-to" / "explain-an-iteration.md").read_text(encoding="utf-8")
    rows = page.split("---|---|---\n")[1].split("\n\n")[0].splitlines()
    named = [name for row in rows for name in row.split(" | ")[0].split(", ")]
    assert sorted(named) == sorted(t.name for t in (*BY_TOKENS, *BY_CONTEXT, *BY_PAIRS, *BY_SEQUENCES))

"""Predictions of real servers under load stay as near as docs/benchmarks/fidelity.md says."""

from statistics import median

import pytest

from tests.benchmarks.fidelity.endtoend import predict
from tests.benchmarks.fidelity.endtoend_points import FILE, Point, read_points
from tests.benchmarks.fidelity.endtoend_usable import reasons
from tests.data import data_path

pytestmark = pytest.mark.slow

LLAMA, GPT, MINIMAX = "meta-llama/Llama-3.1-70B", "openai/gpt-oss-120b", "MiniMaxAI/MiniMax-M2.5"


@pytest.fixture(scope="module")
def points() -> list[Point]:
    return read_points(data_path(FILE))


@pytest.mark.data
@pytest.mark.parametrize(
    ("system", "engine", "model", "tpot"),
    [
        ("h200-sxm", "vllm", LLAMA, 0.10),
        ("h200-sxm", "trtllm", LLAMA, 0.10),
        ("b200-sxm", "vllm", LLAMA, 0.10),
        ("h200-sxm", "vllm", GPT, 0.10),
        ("b200-sxm", "vllm", MINIMAX, 0.12),
    ],
)
def test_medians_of_tpot_and_ttft(
    points: list[Point], system: str, engine: str, model: str, tpot: float
) -> None:
    chosen = [p for p in points if (p.system, p.engine, p.model) == (system, engine, model)]
    predictions = predict(chosen)
    assert len(predictions) == len(chosen) >= 50
    assert median(abs(p.tpot_error) for p in predictions) < tpot
    assert median(abs(p.ttft_error) for p in predictions) < 0.22


@pytest.mark.data
def test_a_replica_is_told_by_the_gpus_that_there_are(points: list[Point]) -> None:
    """64 = TP 8 x EP 8 on one node, whatever the column says."""
    assert {p.gpus for p in points} == {1, 2, 4, 8}
    assert all(p.gpus % p.attention_dp == 0 for p in points)


@pytest.mark.data
def test_a_measurement_is_told_once(points: list[Point]) -> None:
    seen = {(p.cell, p.concurrency, p.ttft_ms, p.tpot_ms) for p in points}
    assert len(seen) == len(points)


@pytest.mark.data
def test_most_points_are_learned_from_and_dense_vllm_all_but_those_from_a_cache(points: list[Point]) -> None:
    known = [p for p in points if "Qwen3.5" not in p.model]
    passed_over = reasons(known)
    assert len(passed_over) < 0.15 * len(known)
    assert not [p for p in passed_over if p.model == LLAMA]


def test_prompts_of_attention_dp_wait_for_those_of_the_other_ranks(points: list[Point]) -> None:
    """The recipe's wait, at most 60 steps, is taken off before anything is learned: first tokens came out at half."""
    held = {
        (p.system, p.attention_dp, p.output_tokens, p.concurrency): p.waits_on_purpose
        for p in points
        if p.engine == "trtllm"
    }
    assert held["b200-sxm", 8, 8192, 256] == 30, "eight prompts take 256 steps to come: given up after 60"
    assert held["b200-sxm", 8, 1024, 256] == 16, "eight prompts are there within 32 steps"
    assert held["b200-sxm", 1, 8192, 128] == 0
    assert all(p.waits_on_purpose == 0 for p in points if p.engine == "vllm" and p.attention_dp > 1)

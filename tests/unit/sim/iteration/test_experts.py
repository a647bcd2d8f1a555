"""Which experts a batch meets, and what a slice of all or some of them in full costs."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.moe import (
    BadExpertSplit,
    busiest_load,
    check_expert_split,
    distinct_experts,
    layer_seconds,
)
from cascadia_sim.models.architecture import Experts
from cascadia_sim.models.catalogue import architecture
from cascadia_sim.models.quantization import weight_format

R1 = architecture("deepseek-ai/DeepSeek-R1")
FP8 = weight_format("fp8")


def test_distinct_experts_by_counting_every_choice() -> None:
    """Three tokens that take two of four: the mean over all 6^3 choices."""
    pairs = list(itertools.combinations(range(4), 2))
    counted = [len(set().union(*choice)) for choice in itertools.product(pairs, repeat=3)]
    assert distinct_experts(np.array([3.0]), Experts(4, 2, 8))[0] == pytest.approx(np.mean(counted))


@given(st.integers(2, 512), st.data())
def test_one_token_meets_k_experts_and_no_batch_meets_more_than_all(count: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, count))
    found = distinct_experts(np.array([1.0, 2.0, 64.0, 1e6]), Experts(count, k, 8))
    assert found[0] == pytest.approx(k)
    assert (np.diff(found) >= -1e-9).all()
    assert found[-1] == pytest.approx(count, rel=1e-3)


@given(st.sampled_from([2, 4, 8, 16]), st.floats(1, 1e5))
def test_the_busiest_gpu_has_at_least_the_mean_and_at_most_all_there_is(gpus: int, tokens: float) -> None:
    moe = R1.moe
    assert moe is not None
    distinct, rows = busiest_load(np.array([tokens]), moe, gpus)
    assert distinct_experts(np.array([tokens]), moe)[0] / gpus <= distinct[0] + 1e-9
    assert distinct[0] <= moe.count / gpus
    assert tokens * moe.per_token / gpus <= rows[0] + 1e-6
    assert rows[0] <= max(tokens * moe.per_token, distinct[0])


def test_imbalance_fades_in_large_batches() -> None:
    moe = R1.moe
    assert moe is not None
    tokens = np.array([16.0, 1024.0, 65536.0])
    _, rows = busiest_load(tokens, moe, 8)
    excess = rows / (tokens * moe.per_token / 8)
    assert excess[0] > excess[1] > excess[2]
    assert excess[2] < 1.02


@given(st.integers(1, 4000), st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_more_tokens_take_no_less_time_and_more_gpus_no_more(tokens: int, gpus: int, whole: bool) -> None:
    card = gpu("h200")
    of = np.array([tokens, tokens + 1.0])
    seconds = layer_seconds(of, R1, card, FP8, gpus, whole)
    assert seconds[0] <= seconds[1]
    assert (
        layer_seconds(of, R1, card, FP8, 2 * gpus, False) <= layer_seconds(of, R1, card, FP8, gpus, False)
    ).all()


def test_whole_experts_cost_a_balanced_large_batch_as_much_as_slices() -> None:
    tokens = np.array([1e6])
    whole, sliced = (layer_seconds(tokens, R1, gpu("h200"), FP8, 8, w)[0] for w in (True, False))
    assert whole == pytest.approx(sliced, rel=0.05)


def test_reading_experts_slower_slows_small_batches_only() -> None:
    card = gpu("h200")
    slow = replace(card, efficiency=replace(card.efficiency, expert_read=0.5))
    few, many = np.array([8.0]), np.array([1e6])
    assert layer_seconds(few, R1, slow, FP8, 8, False) > 1.8 * layer_seconds(few, R1, card, FP8, 8, False)
    assert layer_seconds(many, R1, slow, FP8, 8, False)[0] == pytest.approx(
        layer_seconds(many, R1, card, FP8, 8, False)[0], rel=0.05
    )


@pytest.mark.parametrize(
    ("model", "gpus"), [("meta-llama/Llama-3.1-8B", 2), ("mistralai/Mixtral-8x7B-v0.1", 3)]
)
def test_experts_that_cannot_be_spread_are_refused(model: str, gpus: int) -> None:
    with pytest.raises(BadExpertSplit, match="experts"):
        check_expert_split(architecture(model), gpus)

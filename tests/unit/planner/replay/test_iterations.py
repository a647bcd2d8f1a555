"""What is explained is the plan's own mean batch, and the same batch on the shapes beside it."""

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from cascadia.domain.cluster import Pool
from cascadia.domain.plan import Quantiles, ReplicaGroup, StagePrediction
from cascadia.planner.replay.iterations import decoded_contexts, decoding_batch, other_shapes
from cascadia.planner.replay.replay import Replay
from cascadia_sim.iteration.breakdown import Iteration
from cascadia_sim.iteration.engine_config import EngineConfig


def seen(*, rate_rps: float = 4.0, latency_s: float = 11.0, ttft_s: float = 1.0) -> StagePrediction:
    """Requests of 1,500 tokens that decode for 10 s, four a second: 40 at a time."""
    latency, ttft = (Quantiles(s, s, s, s) for s in (latency_s, ttft_s))
    return StagePrediction(
        "small",
        1.0,
        1.0,
        rate_rps=rate_rps,
        latency=latency,
        ttft=ttft,
        utilisation=0.5,
        tokens_per_s=1500.0 * rate_rps,
    )


@pytest.mark.parametrize(
    ("group", "decoding"),
    [
        (ReplicaGroup("pool", 1, 1, count=1, share=1.0), 40),
        (ReplicaGroup("pool", 1, 1, count=4, share=1.0), 10),
        (ReplicaGroup("pool", 2, 1, count=1, share=0.25), 10),
        (ReplicaGroup("pool", 1, 4, count=1, share=1.0), 10),
        (ReplicaGroup("pool", 1, 2, count=2, share=0.5), 5),
        (ReplicaGroup("pool", 1, 1, count=400, share=1.0), 1),
    ],
)
def test_the_mean_batch_follows_from_littles_law(group: ReplicaGroup, decoding: int) -> None:
    assert decoding_batch(seen(), group, EngineConfig()) == Iteration(decoding, 1500)


def test_a_batch_is_no_larger_than_the_engine_allows() -> None:
    group = ReplicaGroup("pool", 1, 1, count=1, share=1.0)
    assert decoding_batch(seen(), group, EngineConfig(max_num_seqs=16)).decoding == 16


def test_a_stage_that_nothing_reaches_is_explained_with_one_token() -> None:
    group = ReplicaGroup("pool", 1, 1, count=1, share=1.0)
    assert decoding_batch(seen(rate_rps=0.0), group, EngineConfig()) == Iteration(1, 1)


def test_long_answers_count_for_as_long_as_they_last() -> None:
    """100 tokens read and 11 written, 400 and 41: ten steps near 105.5 tokens, forty near 420.5."""
    workload = SimpleNamespace(
        input_tokens=np.array([[100, 7, 400], [1, 1, 1]]), output_tokens=np.array([[11, 9, 41], [1, 1, 1]])
    )
    visits = [SimpleNamespace(stage=s, requests=np.array([0, 2])) for s in (0, 1)]
    stages = [SimpleNamespace(name="small"), SimpleNamespace(name="large")]
    seen = SimpleNamespace(
        problem=SimpleNamespace(workload=workload, stages=stages), run=SimpleNamespace(stages=visits)
    )
    assert decoded_contexts(cast(Replay, seen)) == {"small": round((10 * 105.5 + 40 * 420.5) / 50)}


@pytest.mark.parametrize(
    ("shape", "others"),
    [
        ((1, 1), [(1, 2), (2, 1)]),
        ((4, 1), [(2, 1), (2, 2), (4, 2), (8, 1)]),
        ((8, 1), [(4, 1), (4, 2), (8, 2)]),
        ((4, 2), [(2, 2), (4, 1), (2, 4), (8, 1), (4, 4), (8, 2)]),
        ((8, 2), [(4, 2), (8, 1), (4, 4)]),
    ],
)
def test_other_shapes_stay_within_the_node_and_the_pool(
    shape: tuple[int, int], others: list[tuple[int, int]]
) -> None:
    assert list(other_shapes(Pool("pool", "h100-sxm", 2, 8, 2.5), *shape)) == others

"""A stage's prefix caches are simulated where the trace says what prompts share, and only there."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.problem import Problem
from cascadia.planner.refinement.state import windowed
from cascadia.planner.tables.loads import cached_tokens, found_in, keeps_blocks
from cascadia_sim.engine.dispatch import Replica
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.catalogue import architecture
from cascadia_traces.trace import Trace
from tests.unit.planner.problems import MEDIUM, NODE, briefly, problem, traffic

pytestmark = pytest.mark.slow

CONFIG = EngineConfig()


def conversations(requests: int = 240, sessions: int = 12) -> Trace:
    """Sessions that take turns; each prompt is the one before, its answer, and 200 tokens more."""
    plain = traffic(requests, rate_rps=12.0)
    turn = np.arange(requests) // sessions
    wrote = np.full(requests, 120, np.int64)
    reads = 600 + turn * (120 + 200)
    ids = tuple(f"s{i % sessions}" for i in range(requests))
    return Trace(plain.arrival_s, reads.astype(np.int64), wrote, session_id=ids)


def shared(trace: Trace | None = None, **config: object) -> Problem:
    found = problem(trace=trace or conversations())
    stages = tuple(replace(s, config=replace(CONFIG, **config)) for s in found.stages)  # type: ignore[arg-type]
    return replace(found, stages=stages)


def replicas(count: int, gpus: int = 1) -> list[Replica]:
    timing = replica_timing(architecture(MEDIUM), gpu("h100"), tp=gpus, pp=1, config=CONFIG)
    return [Replica(timing) for _ in range(count)]


def test_one_replica_finds_every_earlier_turn() -> None:
    p = shared()
    found = found_in(p, 0, np.ones(240, np.bool_), replicas(1))
    before = np.maximum(p.workload.input_tokens[0] - 200, 0)
    assert (found[:12] == 0).all()
    assert (found[12:] == before[12:] // 128 * 128).all()


def test_more_replicas_find_less_and_a_stage_that_few_reach_too() -> None:
    p = shared()
    everyone = np.ones(240, np.bool_)
    sums = [int(found_in(p, 0, everyone, replicas(n)).sum()) for n in (1, 5, 7)]
    assert sums[0] > sums[1] > 0
    assert sums[0] > sums[2] > 0
    few = np.arange(240) % 7 == 0
    assert found_in(p, 0, few, replicas(1)).sum() < few.mean() * sums[0]
    assert (found_in(p, 0, few, replicas(1))[~few] == 0).all()


def test_tables_assume_no_more_than_any_deployment_finds() -> None:
    p = shared()
    least = cached_tokens(p, 0)
    assert (least < p.workload.input_tokens[0]).all()
    assert 0 <= least.sum() <= found_in(p, 0, np.ones(240, np.bool_), replicas(8)).sum()


@pytest.mark.parametrize(
    ("trace", "config"),
    [
        (traffic(240), {}),
        (conversations(), {"prefix_caching": False}),
        (conversations(), {"prefix_cache_hit_rate": 0.5}),
        (conversations(), {"engine": "llama.cpp"}),
    ],
)
def test_elsewhere_all_is_as_the_hit_rate_says(trace: Trace, config: dict[str, object]) -> None:
    p = shared(trace, **config)
    assert not keeps_blocks(p, 0)
    assert (cached_tokens(p, 0) == 0).all()  # no column prefix_tokens


def test_a_stretch_of_the_trace_keeps_its_blocks() -> None:
    p = windowed(shared(), 120)
    assert p.workload.blocks is not None
    found = found_in(p, 0, np.ones(120, np.bool_), replicas(1))
    assert (found[:12] == 0).all()
    assert (found[12:] > 0).all()


@pytest.mark.long
def test_a_plan_with_caches_is_no_slower() -> None:
    """On one node: what prompts share is prefilled once."""
    with_caches, without = briefly(shared()).plan, briefly(shared(prefix_caching=False)).plan
    assert with_caches.predicted.e2e.p95_s < without.predicted.e2e.p95_s
    assert with_caches.predicted.ttft.p50_s < without.predicted.ttft.p50_s
    assert with_caches.cluster.pools == (NODE,)

"""The event-skipping engine and its token-by-token twin agree to the picosecond."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascadia_sim.engine.replica import ReplicaRun, simulate_replica
from cascadia_sim.iteration.scheduling import VLLM_V1, Scheduling
from cascadia_sim.iteration.timing import ReplicaTiming
from tests.examples import examples
from tests.unit.sim.machines import machine
from tests.unit.sim.twin import Sequence, Twin, run_twin

pytestmark = pytest.mark.slow

Request = tuple[int, int, int, int]


def rules(seqs: int) -> st.SearchStrategy[Scheduling]:
    """Mostly vLLM V1's, so that skipping is tried most."""
    others = st.builds(
        Scheduling,
        watermark_blocks=st.integers(0, 3),
        batch_seqs=st.none() | st.integers(1, seqs),
        padded_prompts=st.booleans(),
        chunks_in_step=st.booleans(),
        starts_between=st.booleans(),
    )
    return st.just(VLLM_V1) | others


@st.composite
def timings(draw: st.DrawFn, *, speculating: bool = True) -> ReplicaTiming:
    seqs = draw(st.integers(1, 6))
    chunked = draw(st.booleans())
    budget = draw(st.integers(seqs if chunked else 1, 40))
    block = draw(st.sampled_from([1, 2, 5, 16]))
    lanes = draw(st.integers(1, 4))
    some = st.lists(st.integers(0, 3), min_size=seqs + 1, max_size=seqs + 1)
    drafts = draw(st.just([]) | some if speculating else st.just([]))
    kv_blocks = draw(st.integers(-(-(32 + 3) // (block * lanes)), -(-120 // block)))
    base = draw(st.integers(1, 2000))
    slope = draw(st.integers(0, 50))
    entries = draw(st.integers(2, 60))
    return ReplicaTiming(
        token_ps=np.arange(entries, dtype=np.int64) * slope + base,
        sequence_ps=np.arange(seqs + 1, dtype=np.int64) * draw(st.integers(0, 9)),
        context_ps=draw(st.integers(0, 20)),
        pair_ps=draw(st.sampled_from([0.0, 0.37, 3.0])),
        kv_tokens=kv_blocks * block,
        block_size=block,
        max_num_seqs=seqs,
        max_num_batched_tokens=budget,
        chunked_prefill=chunked,
        lanes=lanes,
        scheduling=draw(rules(seqs)),
        draft_tokens=np.array([min(k, budget // max(n, 1) - 1) for n, k in enumerate(drafts)], np.int64).clip(
            0
        ),
        draft_ps=np.array([draw(st.integers(0, 500)) for _ in drafts], np.int64),
        draft_context_ps=draw(st.integers(0, 9)),
        acceptance=draw(st.sampled_from([0.0, 0.5, 0.9])),
    )


@st.composite
def workloads(draw: st.DrawFn) -> list[Request]:
    gaps = st.sampled_from([0, 0, 1, 7, 300, 5000, 40_000])
    n = draw(st.integers(1, 25))
    now = 0
    requests = []
    for _ in range(n):
        now += draw(gaps)
        prompt = draw(st.integers(1, 16))
        requests.append((now, prompt, draw(st.integers(1, 16)), draw(st.integers(0, prompt - 1))))
    return requests


def run_both(timing: ReplicaTiming, requests: list[Request]) -> tuple[ReplicaRun, list[Sequence], Twin]:
    run = simulate_replica(
        timing, *(np.array(column, dtype=np.int64) for column in zip(*requests, strict=True))
    )
    return run, *run_twin(timing, requests)


@pytest.mark.long
@settings(max_examples=examples(400))
@given(timings(), workloads())
def test_first_tokens_and_finishes_equal_the_twins_and_every_token_comes_once(
    timing: ReplicaTiming, requests: list[Request]
) -> None:
    run, sequences, twin = run_both(timing, requests)
    assert run.first_token_ps.tolist() == [s.first_token_ps for s in sequences]
    assert run.finish_ps.tolist() == [s.finish_ps for s in sequences]
    assert run.preemptions == twin.preemptions
    assert run.peak_kv_tokens == twin.peak_blocks * timing.block_size
    assert run.busy_ps == twin.busy_ps // timing.lanes
    every_request_finishes_once_with_every_token(timing, requests, run, sequences)


@pytest.mark.long(in_ci=2)
@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_large_batches_that_thrash_equal_the_twins(seed: int, chunked: bool, lanes: int) -> None:
    rng = np.random.default_rng(seed)
    n = 150
    arrival_ps = np.cumsum(rng.integers(0, 9_000, n))
    rows = zip(arrival_ps, rng.integers(1, 60, n), rng.integers(1, 200, n), np.zeros(n, int), strict=True)
    requests: list[Request] = [(int(a), int(p), int(o), int(c)) for a, p, o, c in rows]
    timing = machine(
        chunked=chunked,
        seqs=64,
        budget=64,
        kv=2_000 // lanes,
        block=4,
        lanes=lanes,
        context_ps=3,
        pair_ps=0.7,
    )
    run, sequences, _ = run_both(timing, requests)
    assert run.preemptions > 50
    assert run.finish_ps.tolist() == [s.finish_ps for s in sequences]


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("gap_ps", [20_000, 200_000])
def test_long_answers_of_a_pipeline_equal_the_twins(gap_ps: int, lanes: int) -> None:
    """Most of the time nothing but contexts changes."""
    rng = np.random.default_rng(lanes)
    n = 100
    arrival_ps = np.cumsum(rng.integers(0, gap_ps, n))
    rows = zip(arrival_ps, rng.integers(1, 60, n), rng.integers(1, 300, n), np.zeros(n, int), strict=True)
    requests: list[Request] = [(int(a), int(p), int(o), int(c)) for a, p, o, c in rows]
    timing = machine(seqs=16, budget=40, kv=3_000, block=16, lanes=lanes, context_ps=3, pair_ps=0.7)
    run, sequences, twin = run_both(timing, requests)
    assert run.first_token_ps.tolist() == [s.first_token_ps for s in sequences]
    assert run.finish_ps.tolist() == [s.finish_ps for s in sequences]
    assert run.peak_kv_tokens == twin.peak_blocks * timing.block_size
    assert run.busy_ps == twin.busy_ps // lanes


def every_request_finishes_once_with_every_token(
    timing: ReplicaTiming, requests: list[Request], run: ReplicaRun, sequences: list[Sequence]
) -> None:
    assert run.complete
    assert run.peak_kv_tokens <= timing.kv_tokens * timing.lanes
    arrival_ps = np.array([r[0] for r in requests])
    assert (run.first_token_ps > arrival_ps).all()
    assert (run.finish_ps >= run.first_token_ps).all()
    for s in sequences:
        assert len(s.steps) == s.output_tokens
        assert sorted(s.steps) == s.steps
        assert max(Counter(s.steps).values()) <= timing.most_drafts + 1


@pytest.mark.parametrize("seed", range(3))
def test_long_answers_of_an_engine_that_speculates_equal_the_twins(seed: int) -> None:
    """Drafts fewer the more sequences decode; the cache is short, so that some are preempted."""
    rng = np.random.default_rng(seed)
    n = 80
    arrival_ps = np.cumsum(rng.integers(0, 40_000, n))
    rows = zip(arrival_ps, rng.integers(1, 60, n), rng.integers(1, 200, n), np.zeros(n, int), strict=True)
    requests: list[Request] = [(int(a), int(p), int(o), int(c)) for a, p, o, c in rows]
    plain = machine(seqs=16, budget=64, kv=1_200, block=4, context_ps=3, pair_ps=0.7)
    timing = replace(
        plain,
        draft_tokens=np.array([3] * 5 + [1] * 6 + [0] * 6),
        draft_ps=np.arange(17) * 20,
        draft_context_ps=1,
        acceptance=0.7,
    )
    run, sequences, twin = run_both(timing, requests)
    assert run.preemptions == twin.preemptions > 0
    assert run.first_token_ps.tolist() == [s.first_token_ps for s in sequences]
    assert run.finish_ps.tolist() == [s.finish_ps for s in sequences]
    assert run.peak_kv_tokens == twin.peak_blocks * timing.block_size

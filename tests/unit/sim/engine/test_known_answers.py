"""Cases small enough to reckon by hand. An iteration of t tokens takes 1000 + t ps unless one says more."""

from dataclasses import replace

import pytest

from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.iteration.scheduling import Scheduling
from tests.unit.sim.machines import ints, machine

BOTH = pytest.mark.parametrize("chunked", [True, False])


@BOTH
def test_a_lone_request_pays_its_prompt_and_then_a_step_a_token(chunked: bool) -> None:
    run = simulate_replica(machine(chunked=chunked), ints(500), ints(10), ints(3), ints(0))
    assert run.first_token_ps.tolist() == [500 + 1010]
    assert run.finish_ps.tolist() == [500 + 1010 + 2 * 1001]
    assert run.busy_ps == 1010 + 2 * 1001


@BOTH
def test_every_term_of_an_iteration_is_charged(chunked: bool) -> None:
    timing = machine(chunked=chunked, context_ps=7, pair_ps=0.5, sequence_ps=30)
    run = simulate_replica(timing, ints(0), ints(10), ints(3), ints(0))
    prefill = 1010 + 30 + int(0.5 * (10 * 10 - 10 * 9 // 2))
    assert run.first_token_ps.tolist() == [prefill]
    assert run.finish_ps.tolist() == [prefill + (1001 + 30 + 7 * 11) + (1001 + 30 + 7 * 12)]


@BOTH
def test_a_single_token_is_done_with_the_prompt(chunked: bool) -> None:
    run = simulate_replica(machine(chunked=chunked), ints(0), ints(10), ints(1), ints(0))
    assert run.first_token_ps.tolist() == run.finish_ps.tolist() == [1010]


@BOTH
def test_cached_tokens_are_not_computed_but_are_attended_to_and_kept(chunked: bool) -> None:
    timing = machine(chunked=chunked, pair_ps=1.0)
    run = simulate_replica(timing, ints(0), ints(10), ints(1), ints(6))
    assert run.finish_ps.tolist() == [1004 + (7 + 8 + 9 + 10)]
    assert run.peak_kv_tokens == 11


def test_whole_prompts_stall_decoding() -> None:
    run = simulate_replica(machine(chunked=False), ints(0, 1015), ints(10, 20), ints(4, 2), ints(0, 0))
    # 0 prefill 1010 decode 2011 prefill of the second 3031 decode both 4033 (second done) decode 5034
    assert run.first_token_ps.tolist() == [1010, 3031]
    assert run.finish_ps.tolist() == [5034, 4033]


def test_chunks_share_iterations_with_decoding() -> None:
    run = simulate_replica(
        machine(chunked=True, budget=8), ints(0, 1000), ints(4, 20), ints(4, 2), ints(0, 0)
    )
    # 1004; then 1 + 7, 1 + 7 and 1 + 6 tokens: 2012, 3020, 4027, which ends the first; a step for the second
    assert run.first_token_ps.tolist() == [1004, 4027]
    assert run.finish_ps.tolist() == [4027, 5028]


def test_whole_prompts_are_taken_together_up_to_the_token_budget() -> None:
    timing = machine(chunked=False, budget=30)
    run = simulate_replica(timing, ints(0, 0, 0), ints(10, 20, 1), ints(1, 1, 1), ints(0, 0, 0))
    assert run.finish_ps.tolist() == [1030, 1030, 1030 + 1001]


def test_a_prompt_beyond_the_token_budget_goes_alone() -> None:
    timing = machine(chunked=False, budget=30)
    run = simulate_replica(timing, ints(0, 0), ints(50, 1), ints(1, 1), ints(0, 0))
    assert run.finish_ps.tolist() == [1050, 1050 + 1001]


@BOTH
def test_the_youngest_is_recomputed_when_blocks_run_out(chunked: bool) -> None:
    timing = machine(chunked=chunked, kv=10)
    run = simulate_replica(timing, ints(0, 0), ints(3, 3), ints(5, 4), ints(0, 0))
    # 1006: both wrote one and hold 4; 2008: two, 5 each, 10 in all; 3010: three, 6 each: the second goes.
    # The first goes on alone: 4011, 5012. Then the second's 3 + 3 tokens are computed, which writes its last.
    assert run.preemptions == 1
    assert run.finish_ps.tolist() == [3010 + 2 * 1001, 5012 + 1006]
    assert run.first_token_ps.tolist() == [1006, 1006]
    assert run.peak_kv_tokens == 10


@BOTH
def test_a_blocked_head_of_the_queue_blocks_those_behind_it(chunked: bool) -> None:
    timing = machine(chunked=chunked, kv=20)
    run = simulate_replica(timing, ints(0, 1, 2), ints(10, 10, 1), ints(3, 1, 1), ints(0, 0, 0))
    # The second needs 11 of the 10 left; the third would fit, but waits its turn.
    assert run.finish_ps.tolist() == [3012, 3012 + 1011, 3012 + 1011]


@BOTH
def test_batches_follow_each_other_through_the_stages(chunked: bool) -> None:
    """Two stages of 505 ps. The third finds two batches in flight and waits until the first has ended."""
    timing = replace(machine(chunked=chunked, lanes=2), scheduling=Scheduling(starts_between=True))
    run = simulate_replica(timing, ints(0, 1, 2), ints(10, 10, 10), ints(1, 1, 1), ints(0, 0, 0))
    assert run.finish_ps.tolist() == [1010, 1515, 2020]
    assert run.busy_ps == 3 * 1010 // 2


@BOTH
def test_what_arrives_while_a_batch_is_in_flight_waits_for_its_end(chunked: bool) -> None:
    """Although the first stage is free at 505: vLLM V1 waits for a result unless it has something to send."""
    timing = machine(chunked=chunked, lanes=2)
    run = simulate_replica(timing, ints(0, 600), ints(10, 10), ints(1, 1), ints(0, 0))
    assert run.finish_ps.tolist() == [1010, 2020]


@pytest.mark.parametrize(("in_step", "finish_ps"), [(True, 1515), (False, 2020)])
def test_chunks_of_a_prompt_follow_each_other_in_a_pipeline(in_step: bool, finish_ps: int) -> None:
    timing = replace(machine(lanes=2, budget=10), scheduling=Scheduling(chunks_in_step=in_step))
    run = simulate_replica(timing, ints(0), ints(20), ints(1), ints(0))
    assert run.finish_ps.tolist() == [finish_ps]


def test_a_pipelines_batches_draw_on_one_cache_and_one_set_of_slots() -> None:
    big = simulate_replica(machine(lanes=2, kv=10), ints(0), ints(15), ints(5), ints(0))
    assert big.peak_kv_tokens == 19
    run = simulate_replica(machine(lanes=2, seqs=1), ints(0, 1), ints(10, 10), ints(2, 1), ints(0, 0))
    assert run.finish_ps.tolist() == [1010 + 1001, 1010 + 1001 + 1010]


def test_a_watermark_is_kept_free_beside_others_only() -> None:
    timing = replace(machine(kv=20), scheduling=Scheduling(watermark_blocks=5))
    run = simulate_replica(timing, ints(0, 1), ints(10, 5), ints(1, 1), ints(0, 0))
    assert run.finish_ps.tolist() == [1010, 1010 + 1005]
    run = simulate_replica(timing, ints(0, 1), ints(18, 5), ints(1, 1), ints(0, 0))
    assert run.finish_ps.tolist() == [1018, 1018 + 1005]


def test_padded_prompts_count_as_long_as_the_longest() -> None:
    timing = replace(machine(chunked=False, budget=30), scheduling=Scheduling(padded_prompts=True))
    run = simulate_replica(timing, ints(0, 0, 0), ints(10, 20, 1), ints(1, 1, 1), ints(0, 0, 0))
    assert run.finish_ps.tolist() == [1010, 1010 + 1020, 1010 + 1020 + 1001]


def test_a_batch_takes_no_more_sequences_than_it_may() -> None:
    timing = replace(machine(seqs=4, lanes=2), scheduling=Scheduling(batch_seqs=1))
    run = simulate_replica(timing, ints(0, 0, 0), ints(10, 10, 10), ints(1, 1, 1), ints(0, 0, 0))
    assert run.finish_ps.tolist() == [1010, 1515, 2020]


def test_tables_go_on_linearly_beyond_their_end() -> None:
    timing = machine(token_ps=ints(0, 100, 110, 130), budget=1000)
    run = simulate_replica(timing, ints(0), ints(10), ints(1), ints(0))
    assert run.finish_ps.tolist() == [130 + 7 * 20]


def test_no_requests_take_no_time() -> None:
    run = simulate_replica(machine(), ints(), ints(), ints(), ints())
    assert (run.busy_ps, run.peak_kv_tokens, run.complete) == (0, 0, True)

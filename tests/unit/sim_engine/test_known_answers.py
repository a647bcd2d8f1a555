"""Cases small enough to reckon by hand. An iteration of t tokens takes 1000 + t ps unless one says more."""

import numpy as np
import pytest

from cascadia_sim.replica import simulate_replica
from tests.unit.sim_engine.machines import ints, machine

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


def test_lanes_take_requests_in_turn_and_do_not_meet() -> None:
    n = 6
    alone = simulate_replica(machine(), ints(0, 0, 0), ints(5, 5, 5), ints(4, 4, 4), ints(0, 0, 0))
    paired = simulate_replica(
        machine(lanes=2), np.zeros(n, int), np.full(n, 5), np.full(n, 4), np.zeros(n, int)
    )
    assert paired.finish_ps.reshape(3, 2).T.tolist() == [alone.finish_ps.tolist()] * 2
    assert paired.busy_ps == alone.busy_ps


def test_tables_go_on_linearly_beyond_their_end() -> None:
    timing = machine(token_ps=ints(0, 100, 110, 130), budget=1000)
    run = simulate_replica(timing, ints(0), ints(10), ints(1), ints(0))
    assert run.finish_ps.tolist() == [130 + 7 * 20]


def test_no_requests_take_no_time() -> None:
    run = simulate_replica(machine(), ints(), ints(), ints(), ints())
    assert (run.busy_ps, run.peak_kv_tokens, run.complete) == (0, 0, True)

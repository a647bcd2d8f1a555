"""The least time of a request on a machine whose iterations take 1000 ps and one more for each token, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.planner.pool.fluid import least_s
from cascadia.planner.tables.loads import Load
from cascadia_sim.iteration.timing import ReplicaTiming
from tests.unit.sim.machines import machine

READ, CACHED, WROTE = np.array([50, 80, 20]), np.array([0, 30, 20]), np.array([1, 5, 11])
DECODED = np.array([0, 4, 10])
OWN = np.array([50, 50, 1])
"""Tokens that are read: one at least."""
CONTEXTS = np.array([0, 80 + 81 + 82 + 83, sum(range(20, 30))])
PAIRS = np.array([sum(range(1, 51)), sum(range(31, 81)), 20])


def told_ps(timing: ReplicaTiming) -> list[float]:
    load = Load(np.arange(3), np.arange(3), READ, WROTE, CACHED, 10**12)
    return (least_s(timing, load) * 1e12).tolist()


def test_iterations_are_as_many_as_slots_or_the_cache_ask_for() -> None:
    by_slots = told_ps(machine(seqs=4, budget=200, kv=10**6))
    assert by_slots == pytest.approx((1000 * DECODED / 4 + OWN + DECODED).tolist())
    by_cache = told_ps(machine(seqs=4, budget=200, kv=100))
    assert by_cache == pytest.approx((1000 * CONTEXTS / 100 + OWN + DECODED).tolist())


def test_sequences_contexts_and_pairs_add_their_own() -> None:
    plain = machine(seqs=4, budget=200, kv=10**6)
    base = np.array(told_ps(plain))
    assert np.array(told_ps(replace(plain, context_ps=3))) - base == pytest.approx(3 * CONTEXTS)
    assert np.array(told_ps(replace(plain, pair_ps=0.5))) - base == pytest.approx(0.5 * PAIRS)
    falling = replace(plain, sequence_ps=np.array([0, 40, 60, 66, 80]))
    assert np.array(told_ps(falling)) - base == pytest.approx(20.0 * WROTE)


def test_a_pipeline_does_as_many_iterations_at_once_as_it_has_stages() -> None:
    one, two = (machine(seqs=4, budget=200, kv=10**6, lanes=lanes) for lanes in (1, 2))
    assert told_ps(two) == pytest.approx([ps / 2 for ps in told_ps(one)])
    full_one, full_two = (machine(seqs=4, budget=200, kv=40, lanes=lanes) for lanes in (1, 2))
    fixed = np.array(told_ps(full_one)) - OWN - DECODED
    assert told_ps(full_two) == pytest.approx(((fixed / 2 + OWN + DECODED) / 2).tolist())


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_table_no_iteration_takes_less_than_its_tokens_and_share(seed: int) -> None:
    """Of one long prompt after another: as many iterations as the budget makes of it take no less than was told."""
    rng = np.random.default_rng(seed)
    table = np.cumsum(rng.integers(0, 50, 301)) + 500
    table[1:] += np.where(np.arange(1, 301) > 150, 900, 0)
    timing = machine(token_ps=table, seqs=4, budget=100, kv=10**6)
    load = Load(np.arange(1), np.arange(1), np.array([100]), np.array([1]), np.array([0]), 10**12)
    told = float(least_s(timing, load)[0] * 1e12)
    assert 0 < told <= int(table[100])
    assert told >= 100 * float((table[1:] / np.arange(1, 301)).min()) - 1e-6

"""A replica that is slower by two factors: one of its steps, one of what only prompts add."""

from dataclasses import replace

import numpy as np

from cascadia_sim.iteration.scaled_timing import scaled
from tests.unit.sim.machines import machine

TIMING = replace(
    machine(token_ps=np.array([0, 100, 200, 300, 450, 650]), seqs=3, budget=5, context_ps=7, pair_ps=0.5,
            sequence_ps=11),
    draft_tokens=np.array([0, 2, 1, 0]), draft_ps=np.array([0, 30, 20, 0]), draft_context_ps=5,
)  # fmt: skip


def test_steps_and_what_prompts_add_have_each_their_factor() -> None:
    found = scaled(TIMING, 2.0, 3.0)
    assert found.token_ps.tolist() == [0, 200, 400, 600, 600 + 450, 600 + 1050]
    assert found.sequence_ps.tolist() == [0, 22, 44, 66]
    assert found.draft_ps.tolist() == [0, 60, 40, 0]
    assert (found.context_ps, found.draft_context_ps, found.pair_ps) == (14, 10, 1.5)
    assert found.draft_tokens.tolist() == [0, 2, 1, 0]


def test_a_table_that_ends_before_its_most_sequences_is_all_steps() -> None:
    short = replace(TIMING, token_ps=np.array([0, 100, 200]))
    assert scaled(short, 2.0, 3.0).token_ps.tolist() == [0, 200, 400]


def test_a_factor_of_one_changes_nothing() -> None:
    assert scaled(TIMING, 1.0, 1.0).token_ps.tolist() == TIMING.token_ps.tolist()

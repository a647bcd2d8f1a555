"""A profile: what its measurements tell of, the iterations that they were, and the engine's own account of requests."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.fit.profile_check import Served, capacity_rps, check
from cascadia_sim.fit.profile_coverage import PARTS, missing, told
from cascadia_sim.fit.profile_fit import Observation, Setup, _cells, _folds, outside_s
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.catalogue import architecture
from tests.unit.sim.machines import machine

S = 10**12


def steps(sequences: int, context: float, seconds: float = 0.01) -> Observation:
    return Observation(True, sequences, 0.0, context, seconds)


def prompt(tokens: float, seconds: float = 0.1) -> Observation:
    return Observation(False, 1, tokens, 0.0, seconds)


ALL = {"decoding", "prompts", "long prompts", "several sequences at once", "long contexts"}


@pytest.mark.parametrize(
    ("seen", "shown"),
    [
        (steps(1, 0.0), {"decoding"}),
        (steps(3, 3 * 383.0), {"decoding"}),
        (steps(4, 0.0), {"decoding", "several sequences at once"}),
        (steps(3, 3 * 384.0), {"decoding", "long contexts"}),
        (prompt(47), set()),
        (prompt(48), {"prompts"}),
        (prompt(383), {"prompts"}),
        (prompt(384), {"prompts", "long prompts"}),
    ],
)
def test_a_measurement_tells_of_what_it_is_long_and_wide_enough_for(
    seen: Observation, shown: set[str]
) -> None:
    lacking = {part.name for part in missing([seen], longest=768, most_sequences=4)}
    assert lacking == ALL - shown


@pytest.mark.parametrize(
    ("longest", "most", "asked"),
    [
        (768, 4, ALL),
        (767, 4, ALL - {"long prompts", "long contexts"}),
        (96, 4, ALL - {"long prompts", "long contexts"}),
        (95, 4, {"decoding", "several sequences at once"}),
        (768, 3, ALL - {"several sequences at once"}),
    ],
)
def test_what_an_engine_cannot_do_is_not_asked_of_it(longest: int, most: int, asked: set[str]) -> None:
    assert {part.name for part in missing([], longest=longest, most_sequences=most)} == asked


def test_what_is_missing_is_told_with_the_constants_that_stay() -> None:
    assert told(PARTS[3:4]) == (
        "several sequences at once (attention_sequence_s, sequence_s stay as assumed)",
    )


@pytest.mark.parametrize(
    ("seen", "outside"),
    [
        ([], 0.0),
        ([prompt(10)], 0.0),
        ([steps(1, 5.0)], 0.0),
        ([steps(2, 5.0), prompt(10)], 0.0),
        ([steps(1, 5.0), prompt(41)], 0.0),
        ([steps(1, 5.0), prompt(40)], 0.09),
        ([steps(1, 5.0), steps(1, 4.0, 0.02), prompt(40), prompt(30, 0.05)], 0.03),
        ([steps(1, 5.0, 0.3), prompt(40)], 0.0),
    ],
)
def test_outside_of_iterations_is_what_the_shortest_prompt_takes_beyond_a_lone_step(
    seen: list[Observation], outside: float
) -> None:
    assert outside_s(seen) == pytest.approx(outside)


def setup(pp: int = 1, budget: int = 100) -> Setup:
    config = EngineConfig(max_num_batched_tokens=budget, max_num_seqs=16)
    return Setup(architecture("Qwen/Qwen2.5-7B-Instruct"), gpu("h100-sxm"), 1, pp, config)


def test_a_setup_is_at_its_engines_precision_then_its_models() -> None:
    made = setup()
    assert made.precision == "bf16"
    quantised = replace(made, architecture=replace(made.architecture, quantization="fp8"))
    assert quantised.precision == "fp8"
    assert replace(quantised, config=replace(made.config, quantization="int8")).precision == "int8"


@pytest.mark.parametrize(
    ("sequences", "pp", "share", "context"), [(8, 1, 8.0, 4000.0), (8, 4, 2.0, 1000.0), (2, 4, 1.0, 2000.0)]
)
def test_a_lane_decodes_its_share_of_the_sequences(
    sequences: int, pp: int, share: float, context: float
) -> None:
    (cell,) = _cells([steps(sequences, 4000.0, 0.25)], setup(pp), 0.1)
    assert (cell.tokens, cell.sequences, cell.context, cell.pairs) == (share, share, context, 0.0)
    assert (cell.seconds, cell.run, cell.pp) == (0.25, 0, pp)


def test_a_prompt_is_read_in_chunks_of_which_the_last_gives_the_token() -> None:
    cells = _cells([prompt(40), prompt(250, 0.5), prompt(200)], setup(), 0.1)
    assert [(c.run, c.tokens, c.sequences) for c in cells] == [
        (0, 40, 1), (1, 100, 0), (1, 100, 0), (1, 50, 1), (2, 100, 0), (2, 100, 1),
    ]  # fmt: skip
    # Each token looks at those before it and at itself.
    pairs = [sum(range(1, 41)), sum(range(1, 101)), sum(range(101, 201)), sum(range(201, 251))]
    assert [c.pairs for c in cells[:4]] == pairs
    assert [c.seconds for c in cells] == pytest.approx([0.005, 0.4, 0.4, 0.4, 0.005, 0.005])
    assert {c.context for c in cells} == {0.0}


def test_neighbours_fall_into_different_folds() -> None:
    seen = [steps(4, 1.0), prompt(30), steps(1, 1.0), prompt(10), steps(2, 1.0), prompt(20)]
    assert _folds(seen) == [2, 2, 0, 0, 1, 1]


def served_as_simulated(request_s: float, timing_ps: int) -> list[Served]:
    """Ten requests by the simulator's own account, on a clock that begins at 50 s; the client is told at once."""
    sent_s = 50 + np.arange(10) * 0.5
    timing = machine(token_ps=np.full(300, timing_ps, np.int64))
    reads, wrote = [20] * 10, [3 + k for k in range(10)]
    begun = np.rint((sent_s - 50 + request_s) * S).astype(np.int64)
    run = simulate_replica(timing, begun, reads, wrote, np.zeros(10, np.int64))
    return [
        Served(float(sent_s[k]), 50 + run.first_token_ps[k] / S, 50 + run.finish_ps[k] / S, 20, wrote[k])
        for k in range(10)
    ]


def test_requests_are_simulated_as_they_were_sent_and_both_accounts_are_told() -> None:
    timing = machine(token_ps=np.full(300, S // 10, np.int64))
    late = replace(timing, client_ps=S, client_steps=2.0)
    for order in (1, -1):
        found = check(served_as_simulated(0.25, S // 10)[::order], late, 0.25)
        assert found.requests == 10
        assert found.predicted == pytest.approx(found.measured)
    # Alone, a request takes an iteration for its prompt and its first token, and one for each further token.
    (one,) = [Served(7.0, 7.4, 8.0, 20, 3)]
    alone = check([one], timing, 0.25)
    assert alone.measured == pytest.approx((0.4, 0.4, 1.0, 1.0, 1.0))
    assert alone.predicted == pytest.approx((0.35, 0.35, 0.55, 0.55, 1 / 0.55))


def test_a_runs_figures_are_quantiles_from_when_each_was_sent() -> None:
    sent = [Served(float(k), k + 0.1 * (k + 1), k + 1.0 * (k + 1), 20, 3) for k in range(21)]
    measured = check(sent, machine(), 0.0).measured
    assert measured == pytest.approx((1.1, 2.0, 11.0, 20.0, 21 / 41))


def test_capacity_is_of_so_many_requests_that_what_is_held_turns_over_a_dozen_times() -> None:
    """Two at once, each of two iterations of a tenth of a second: ten a second."""
    timing = machine(token_ps=np.full(300, S // 10, np.int64), seqs=2)
    assert capacity_rps([(10, 2)], timing) == pytest.approx(10.0)
    ends = [0, 0]
    for iterations in [2, 2, 4] * 8:
        ends[ends.index(min(ends))] += iterations
    assert capacity_rps([(10, 2), (10, 2), (10, 4)], timing) == pytest.approx(24 / (max(ends) / 10))
    # Of a cache of 100 tokens, requests of 40 and half of what they write hold two at a time.
    small = machine(token_ps=np.full(300, S // 10, np.int64), seqs=50, kv=100)
    assert capacity_rps([(40, 2)], small) == pytest.approx(10.0)

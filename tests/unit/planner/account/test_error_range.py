"""Every plan says what its times rest on, and what their errors do to its latency."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.domain.cluster import Pool
from cascadia.domain.plan import ErrorRange, Plan
from cascadia.domain.problem import Problem
from cascadia.files.plan_file import parse_plan, plan_json
from cascadia.planner.account.calibration_notes import calibration_notes
from cascadia.planner.account.error_range import erring, error_range
from cascadia.planner.allocation.demand import JUDGE
from cascadia.planner.deployment.simulation import quantile_s
from cascadia.planner.plan import PlanResult
from cascadia.planner.stability.certificate import certify
from cascadia.planner.stability.repeats import repeated
from cascadia_sim.calibration.catalogue import closest_calibration
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.scaled_timing import scaled
from tests.unit.planner.problems import briefly, hosted_judge, problem

pytestmark = pytest.mark.slow

A100 = Pool("a100-sxm", "a100-sxm", 1, 8, 1.5)
H200 = Pool("h200", "h200-sxm", 1, 8, 3.5)


@pytest.fixture(scope="module")
def found() -> PlanResult:
    return briefly(problem(judge=hosted_judge(), pools=(A100, H200)))


def p95_s(result: PlanResult, sign: int) -> float:
    moved = erring(result.search.problem, result.chosen.deployment, sign)
    certificate = result.chosen.certificate
    assert certificate is not None
    run = result.simulator.run(moved, certificate.decided)
    return quantile_s(result.simulator.latency_s(run), 0.95)


@pytest.mark.long
def test_times_without_an_error_are_the_same_to_the_picosecond(found: PlanResult) -> None:
    for _, mix in found.chosen.deployment.mixes:
        for r in mix:
            timing = r.shape.timing
            same = scaled(timing, 1.0, 1.0)
            assert np.array_equal(same.token_ps, timing.token_ps)
            assert np.array_equal(same.sequence_ps, timing.sequence_ps)
            assert (same.context_ps, same.pair_ps) == (timing.context_ps, timing.pair_ps)
    assert p95_s(found, 0) == found.plan.predicted.objective_s


def test_decoding_and_prefill_are_scaled_each_by_its_own(found: PlanResult) -> None:
    timing = found.chosen.deployment.mixes[0][1][0].shape.timing
    moved, most = scaled(timing, 1.5, 2.0), timing.max_num_seqs
    assert moved.token_ps[most] == pytest.approx(1.5 * timing.token_ps[most], abs=1)
    grown = timing.token_ps[-1] - timing.token_ps[most]
    assert moved.token_ps[-1] - moved.token_ps[most] == pytest.approx(2 * grown, abs=2)
    assert (np.diff(moved.token_ps) >= 0).all()
    assert moved.context_ps == pytest.approx(1.5 * timing.context_ps, abs=1)
    assert moved.pair_ps == 2 * timing.pair_ps


def test_the_slow_end_is_slower_and_the_fast_one_faster(found: PlanResult) -> None:
    within, expected = found.plan.error_range, found.plan.predicted.objective_s
    assert within is not None
    assert within.fast_s < expected < within.slow_s
    assert (within.fast_s, within.slow_s) == (p95_s(found, -1), p95_s(found, 1))


def test_every_stage_and_the_judge_say_what_they_rest_on_pool_by_pool(found: PlanResult) -> None:
    given: Problem = found.search.problem
    for stage, mix in found.chosen.deployment.mixes:
        name = "judge" if stage == JUDGE else given.stages[stage].name
        told = {c.pool: c for c in found.plan.calibrations[name].pools}
        assert set(told) == {r.shape.pool for r in mix}
        for pool, c in told.items():
            closest = closest_calibration(gpu(given.cluster.pool(pool).gpu), "vllm", "bf16")
            assert (c.calibration, c.match) == (closest.calibration.name, closest.match)
            assert c.error_tpot > 0
            assert c.error_ttft > 0


def test_a_plan_is_read_back_with_all_of_it(found: PlanResult) -> None:
    assert parse_plan(plan_json(found.plan), "plan.json") == found.plan


def test_a_stand_in_is_a_note_and_a_served_engine_is_none(found: PlanResult) -> None:
    notes = " ".join(calibration_notes(found.plan))
    for name, stage in found.plan.calibrations.items():
        for c in stage.pools:
            told = f"on {c.pool} rest on" in notes and name in notes
            assert told or c.served


def a_note(plan_: Plan, words: str) -> bool:
    return any(words in note for note in calibration_notes(plan_))


def test_near_the_knee_is_a_note(found: PlanResult) -> None:
    expected, within = found.plan.predicted.objective_s, found.plan.error_range
    assert within is not None
    at_it = replace(found.plan, error_range=ErrorRange(within.fast_s, 2 * expected))
    beyond_it = replace(found.plan, error_range=ErrorRange(within.fast_s, 2.001 * expected))
    assert not a_note(at_it, "near the knee")
    assert a_note(beyond_it, "near the knee")


def test_the_slow_end_is_held_to_the_certificate_of_stability(found: PlanResult) -> None:
    certificate = found.chosen.certificate
    within = found.plan.error_range
    assert certificate is not None
    assert within is not None
    slow = erring(found.search.problem, found.chosen.deployment, 1)
    assert within.slow_holds is certify(certificate.simulator, slow, certificate.decided, {}).holds
    # Whoever carries more than the rate that the slow end amounts to need not be asked.
    again = error_range(
        found.search.problem,
        certificate.simulator,
        found.chosen.deployment,
        certificate.decided,
        found.plan.predicted.objective_s,
    )
    assert again == within
    full = repeated(certificate.simulator, 1, 50.0)
    lost = error_range(full.problem, full, found.chosen.deployment, certificate.decided, 1.0)
    assert not lost.slow_holds


def test_an_end_without_stability_is_told_instead_of_a_figure(found: PlanResult) -> None:
    within = found.plan.error_range
    assert within is not None
    lost = replace(found.plan, error_range=replace(within, slow_s=1e3, slow_holds=False))
    assert a_note(lost, "does not keep up with its requests")
    assert not a_note(lost, "near the knee")


def test_what_goes_beyond_the_measured_range_is_a_note(found: PlanResult) -> None:
    name, stage = next(iter(found.plan.calibrations.items()))
    far = replace(stage, beyond=("TP 16, measured: 1 to 8",))
    assert a_note(
        replace(found.plan, calibrations={name: far}),
        f"{name} on {far.pool} goes beyond what {far.calibration}",
    )


def test_a_plan_of_before_tells_nothing_and_is_read(found: PlanResult) -> None:
    bare = replace(found.plan, calibrations={}, error_range=None)
    assert calibration_notes(bare) == []
    assert parse_plan(plan_json(bare), "plan.json") == bare

"""What clients wait beyond the engine's time: fixed, and in decode steps; in a replica, a stage and a cascade."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia_sim.calibration.catalogue import find_calibration
from cascadia_sim.cascade.cascade import CascadeRun, CascadeStage, JudgeStage, simulate_cascade
from cascadia_sim.cascade.stage import Replica, simulate_stage
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming
from cascadia_sim.models.catalogue import architecture
from tests.unit.sim.machines import ints, machine

pytestmark = pytest.mark.slow

PROMPT_PS, STEP_PS = 1010, 1001
"""Of the machine: ten tokens read, one written."""


def slow_client(fixed: int = 500, steps: float = 3.0) -> ReplicaTiming:
    return replace(machine(), client_ps=fixed, client_steps=steps)


def test_the_first_token_and_the_last_are_late_by_the_same() -> None:
    run = simulate_replica(slow_client(), ints(0), ints(10), ints(5), ints(0))
    late = 500 + 3 * STEP_PS
    assert run.first_token_ps.tolist() == [PROMPT_PS + late]
    assert run.finish_ps.tolist() == [PROMPT_PS + 4 * STEP_PS + late]
    assert run.busy_ps == PROMPT_PS + 4 * STEP_PS


def test_an_answer_of_one_token_waits_a_lone_sequences_steps() -> None:
    run = simulate_replica(slow_client(), ints(0), ints(10), ints(1), ints(0))
    assert run.finish_ps.tolist() == [PROMPT_PS + 500 + 3 * STEP_PS]


def test_the_engine_is_not_occupied() -> None:
    """Who comes next is served as if nobody waited."""
    arrivals, ten, two = ints(0, 2100), ints(10, 10), ints(2, 2)
    engine = simulate_replica(machine(), arrivals, ten, two, 0 * ten)
    client = simulate_replica(slow_client(500, 0.0), arrivals, ten, two, 0 * ten)
    assert (client.finish_ps - engine.finish_ps).tolist() == [500, 500]


def test_each_replica_of_a_stage_has_its_own() -> None:
    replicas = (Replica(slow_client(100, 0.0)), Replica(slow_client(900, 0.0)))
    run = simulate_stage(replicas, "round-robin", ints(0, 0), ints(10, 10), ints(2, 2), ints(0, 0))
    expected = np.array([100, 900])[run.replica] + PROMPT_PS + STEP_PS
    assert run.finish_ps.tolist() == expected.tolist()


def cascade(stages: int, judge: JudgeStage, client: ReplicaTiming) -> CascadeRun:
    one = np.ones(1, np.int64)
    made = [
        CascadeStage((Replica(client),), 10 * one, 2 * one, 0 * one, np.zeros(1, bool)) for _ in range(stages)
    ]
    return simulate_cascade(made, judge, ints(0))


@pytest.mark.parametrize("stages", [2, 3])
def test_a_cascade_waits_for_every_answer_and_every_verdict_before(stages: int) -> None:
    """Two stages are simulated one after the other, three with a judge of their own in step."""
    client = slow_client(500, 0.0)
    run = cascade(stages, JudgeStage((Replica(client),)), client)
    without = cascade(stages, JudgeStage((Replica(machine()),)), machine())
    visits = 2 * stages - 1
    assert (run.finish_ps - without.finish_ps).tolist() == [500 * visits]
    assert (run.first_byte_ps - without.first_byte_ps).tolist() == [500 * visits]
    assert run.verdicts is not None
    for at, visit in enumerate(run.stages):
        assert visit.arrival_ps.tolist() == (without.stages[at].arrival_ps + 500 * 2 * at).tolist()
        assert (visit.run.finish_ps > visit.arrival_ps).all()
    assert (run.verdicts.finish_ps > run.verdicts.arrival_ps).all()


def test_a_replica_has_its_calibrations_client() -> None:
    card = gpu("h200")
    e = find_calibration(card, "vllm", "fp8").efficiency
    assert e.first_token_s > 0
    assert e.first_token_steps > 0
    config = EngineConfig(quantization="fp8")
    timing = replica_timing(architecture("meta-llama/Llama-3.1-8B"), card, tp=1, pp=1, config=config)
    assert timing.client_ps == round(e.first_token_s * PS_PER_S)
    assert timing.client_steps == e.first_token_steps

"""The closed loop's list of iterations is the simulator's own, and its weights are means over requests."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.timing import ReplicaTiming
from cascadia_sim.models.catalogue import architecture
from tests.benchmarks.fidelity.closed_loop import Loop, mean_ms, run


def timing(chunked: bool) -> ReplicaTiming:
    config = EngineConfig(max_num_seqs=64, max_num_batched_tokens=2048, enable_chunked_prefill=chunked)
    roomy = replace(gpu("h100"), memory_bytes=10**13)
    t = replica_timing(architecture("meta-llama/Llama-3.1-8B"), roomy, tp=1, pp=1, config=config)
    return replace(t, client_ps=0, client_steps=0.0)


@pytest.mark.parametrize("varied", [True, False])
@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("concurrency", [1, 7, 48])
def test_the_simulator_serves_the_loops_arrivals_at_the_same_picoseconds(
    chunked: bool, varied: bool, concurrency: int
) -> None:
    t = timing(chunked)
    ran = run(Loop(900, 120, concurrency, varied, 2048, chunked), t)
    simulated = simulate_replica(
        t, ran.arrival_ps, ran.input_tokens, ran.output_tokens, np.zeros_like(ran.input_tokens)
    )
    assert (simulated.first_token_ps == ran.first_token_ps).all()
    assert (simulated.finish_ps == ran.finish_ps).all()


@pytest.mark.parametrize("varied", [True, False])
@pytest.mark.parametrize("chunked", [True, False])
def test_weights_give_the_means_over_the_counted_requests(chunked: bool, varied: bool) -> None:
    t = timing(chunked)
    ran = run(Loop(900, 120, 16, varied, 2048, chunked), t)
    counted = slice(0 if varied else 16, None)
    ttft = (ran.first_token_ps - ran.arrival_ps)[counted].mean() / 1e9
    tpot = ((ran.finish_ps - ran.first_token_ps) / (ran.output_tokens - 1))[counted].mean() / 1e9
    assert mean_ms(ran.weights, t) == pytest.approx((ttft, tpot), rel=1e-6)


def test_the_list_of_iterations_does_not_depend_on_what_they_take() -> None:
    loop = Loop(900, 120, 16, True, 2048, True)
    assert run(loop).weights == run(loop, timing(True)).weights

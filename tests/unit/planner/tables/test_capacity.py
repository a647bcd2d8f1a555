"""What a replica is said to sustain, it sustains for as long as one likes, whatever it holds at once."""

import numpy as np
import pytest

from cascadia.planner.tables.capacity import held_at_once, sustained_rps
from cascadia.planner.tables.loads import Load
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.fit.profile_check import capacity_rps
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import DoesNotFit, InvalidShape, replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.timing import PS_PER_S, Ints, ReplicaTiming
from cascadia_sim.models.catalogue import architecture
from tests.unit.planner.problems import traffic
from tests.unit.sim.machines import machine

MODELS = (
    ("Qwen/Qwen2.5-1.5B-Instruct", None),
    ("meta-llama/Llama-3.1-8B-Instruct", None),
    ("meta-llama/Llama-3.1-70B-Instruct", None),
    ("Qwen/Qwen2.5-32B-Instruct", "awq-int4"),
    ("meta-llama/Llama-3.1-405B-Instruct", "fp8"),
    ("deepseek-ai/DeepSeek-R1", "fp8"),
    ("mistralai/Mixtral-8x7B-Instruct-v0.1", None),
)
GPUS = ("h100-sxm", "a100-sxm", "l40s", "h200", "b200")


def load_of(read: Ints, wrote: Ints) -> Load:
    n = len(read)
    nothing = np.zeros(n, np.int64)
    return Load(np.arange(n), nothing, read, wrote, nothing, PS_PER_S)


def drawn(rng: np.random.Generator, pp: int) -> tuple[ReplicaTiming, Load] | None:
    """A replica of some shape, and lengths that are alike or far apart; None where the model does not fit."""
    model, quantization = MODELS[rng.integers(len(MODELS))]
    hardware, tp = gpu(str(rng.choice(GPUS))), int(rng.choice([1, 2, 4, 8]))
    config = EngineConfig(quantization=quantization, max_num_seqs=int(rng.choice([16, 64, 256])))
    try:
        timing = replica_timing(architecture(model), hardware, tp=tp, pp=pp, config=config, gpus_per_node=8)
    except (DoesNotFit, InvalidShape):
        return None
    n, spread = int(rng.choice([30, 300, 3000])), rng.uniform(0, 1.2)
    read, wrote = int(rng.choice([100, 1000, 6000])), int(rng.choice([2, 40, 300, 1500]))
    lengths = [rng.lognormal(np.log(mean), spread, n) for mean in (read, wrote)]
    most = timing.lanes * timing.kv_tokens // 4
    return timing, load_of(
        np.clip(lengths[0], 4, min(30_000, most)).astype(np.int64),
        np.clip(lengths[1], 1, min(8_000, most)).astype(np.int64),
    )


def changes(seed: int, pp: int) -> list[float]:
    """By what factor twice and eight times the requests change the capacity of 15 replicas."""
    rng = np.random.default_rng(seed)
    found: list[float] = []
    while len(found) < 30:
        if (given := drawn(rng, pp)) is not None:
            once = sustained_rps(*given)
            found += [sustained_rps(*given, times=times) / once for times in (2, 8)]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_more_requests_do_not_change_it(seed: int) -> None:
    assert np.abs(np.log(changes(seed, 1))).max() < 0.04


@pytest.mark.long(in_ci=1)
@pytest.mark.parametrize("pp", [2, 4])
def test_more_requests_do_not_show_that_a_pipeline_sustains_less(pp: int) -> None:
    """How unequal a pipeline's batches become depends on how it came there: some sustain more than is said of them."""
    found = np.array(changes(7, pp))
    assert found.min() > 0.95
    assert abs(np.median(found) - 1) < 0.01
    assert np.quantile(found, 0.8) < 1.04


def growing(timing: ReplicaTiming, rate_rps: float, requests: int = 12_000) -> float:
    """The mean latency of the last tenth of a long stream of requests over that of its third tenth."""
    trace = traffic(requests, rate_rps, seed=5)
    arrival = np.rint(trace.arrival_s * PS_PER_S).astype(np.int64)
    nothing = np.zeros(requests, np.int64)
    run = simulate_replica(timing, arrival, trace.input_tokens, trace.output_tokens, nothing)
    tenths = (run.finish_ps - arrival).reshape(10, -1).mean(axis=1)
    return float(tenths[-1] / tenths[2])


@pytest.mark.parametrize(
    ("model", "quantization", "tp", "pp"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", None, 1, 1),
        ("meta-llama/Llama-3.1-70B-Instruct", None, 8, 1),
        ("meta-llama/Llama-3.1-70B-Instruct", None, 4, 2),
        ("meta-llama/Llama-3.1-70B-Instruct", None, 2, 4),
        ("meta-llama/Llama-3.1-405B-Instruct", "fp8", 4, 2),
        ("meta-llama/Llama-3.1-405B-Instruct", "fp8", 8, 2),
    ],
)
def test_below_it_queues_stand_and_above_it_they_grow(
    model: str, quantization: str | None, tp: int, pp: int
) -> None:
    timing = replica_timing(
        architecture(model),
        gpu("h100-sxm"),
        tp=tp,
        pp=pp,
        config=EngineConfig(quantization=quantization),
        gpus_per_node=8,
    )
    trace = traffic(12_000, 1.0, seed=3)
    capacity_rps = sustained_rps(timing, load_of(trace.input_tokens, trace.output_tokens))
    assert growing(timing, 0.92 * capacity_rps) < 1.3
    assert growing(timing, 1.12 * capacity_rps) > 1.6


def test_a_pipeline_of_the_largest_model_sustains_what_long_runs_show_and_not_its_first_batch() -> None:
    """300 requests fit into one batch: from these it seemed to be 27."""
    timing = replica_timing(
        architecture("meta-llama/Llama-3.1-405B-Instruct"),
        gpu("h100-sxm"),
        tp=4,
        pp=2,
        config=EngineConfig(quantization="fp8"),
        gpus_per_node=8,
    )
    trace = traffic(6000, 1.0, seed=3)
    load = load_of(trace.input_tokens, trace.output_tokens)
    assert held_at_once(timing, load) == 256
    # 9.3 of 6,000 that are there at one go; filled by arrivals, as it is in service, it keeps up with less.
    assert 6.5 < sustained_rps(timing, load) < 7.4


def test_one_at_a_time_it_is_one_over_the_service_time() -> None:
    """1,001 ps for the 1-token prompt and each of 9 more tokens; twice as many tokens of every other one."""
    load = load_of(np.ones(1000, np.int64), np.tile([10, 20], 500))
    assert sustained_rps(machine(seqs=1), load) == pytest.approx(PS_PER_S / (15 * 1_001), rel=1e-3)


def test_a_stage_that_few_requests_reach_needs_replicas_too() -> None:
    """Of 15 requests it was once said that they need none."""
    ten_a_second = Load(*(np.full(15, v, np.int64) for v in (0, 0, 1, 10, 0)), 15 * PS_PER_S // 10)
    assert ten_a_second.rate_rps == pytest.approx(10.0)


def test_lengths_are_mixed_alike_in_every_stretch() -> None:
    rng = np.random.default_rng(0)
    load = load_of(rng.integers(10, 2000, 700), rng.lognormal(5, 1.2, 700).astype(np.int64) + 1)
    many = load.evenly(2800)
    assert many.output_tokens.mean() == pytest.approx(load.output_tokens.mean(), rel=0.01)
    for part in np.split(many.output_tokens, 7):
        assert part.mean() == pytest.approx(load.output_tokens.mean(), rel=0.1)


def test_what_a_profile_takes_for_capacity_is_not_its_first_batch() -> None:
    timing = replica_timing(architecture(MODELS[1][0]), gpu("h100-sxm"), tp=1, pp=1, config=EngineConfig())
    lengths = [(500, 120)] * 200
    read, wrote = (np.array(column) for column in zip(*lengths, strict=True))
    assert capacity_rps(lengths, timing) == pytest.approx(
        sustained_rps(timing, load_of(read, wrote)), rel=0.12
    )
    assert capacity_rps(lengths * 8, timing) == pytest.approx(capacity_rps(lengths, timing), rel=0.03)

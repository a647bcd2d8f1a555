"""Where the engine degenerates to a queue with a known mean, it gives that mean.

Each case makes `REPLICATIONS` independent runs (seeds 0, 1, ...) and compares the 99 % confidence interval of
their mean time in system (Student's t) with theory. The engine's steps make time discrete; each case states how
far that can move its mean, and the interval has to be wider than that and narrower than 3 % of the theory, so
that a hit is owed neither to bias nor to noise.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from cascadia_sim.cascade.stage import Replica, simulate_stage
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.iteration.timing import Ints, ReplicaTiming

pytestmark = pytest.mark.slow

REPLICATIONS = 30
REQUESTS = 20_000
WARM_UP = 2_000

STEP_PS = 1_000_000
"""What a decode step takes; answers are thousands of steps long."""

BOTH = pytest.mark.parametrize("chunked", [True, False])


class Interval(NamedTuple):
    mean: float
    half_width: float


def engine(token_ps: Ints, seqs: int, *, chunked: bool) -> ReplicaTiming:
    """Neither context, attention nor sampling costs time, and KV never runs out."""
    return ReplicaTiming(
        token_ps=token_ps,
        sequence_ps=np.zeros(seqs + 1, np.int64),
        context_ps=0,
        pair_ps=0.0,
        kv_tokens=2**40,
        block_size=16,
        max_num_seqs=seqs,
        max_num_batched_tokens=8192,
        chunked_prefill=chunked,
        lanes=1,
    )


def poisson(rng: np.random.Generator, mean_gap_ps: float) -> Ints:
    return np.cumsum(rng.exponential(mean_gap_ps, REQUESTS)).astype(np.int64)


def mean_steps(one_run: Callable[[np.random.Generator], Ints]) -> Interval:
    """Mean time in system over all replications, in steps; `one_run` gives that of each request in ps."""
    means = [one_run(np.random.default_rng(seed))[WARM_UP:].mean() / STEP_PS for seed in range(REPLICATIONS)]
    error = float(np.std(means, ddof=1)) / math.sqrt(REPLICATIONS)
    return Interval(float(np.mean(means)), float(stats.t.ppf(0.995, REPLICATIONS - 1)) * error)


def assert_agrees(measured: Interval, theory: float, bias: float) -> None:
    assert abs(measured.mean - theory) <= measured.half_width
    assert bias < measured.half_width < 0.03 * theory


@BOTH
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_one_slot_and_equal_lengths_are_m_d_1(load: float, chunked: bool) -> None:
    """Pollaczek-Khinchine: T = S + load * S / (2 (1 - load)). No bias: one slot's steps leave no gaps."""
    steps = 1_000
    timing = engine(np.full(8, STEP_PS, np.int64), 1, chunked=chunked)
    one, many = np.ones(REQUESTS, np.int64), np.full(REQUESTS, steps, np.int64)

    def run(rng: np.random.Generator) -> Ints:
        arrival_ps = poisson(rng, steps * STEP_PS / load)
        return simulate_replica(timing, arrival_ps, one, many, one - 1).finish_ps - arrival_ps

    theory = steps * (1 + load / (2 * (1 - load)))
    assert_agrees(mean_steps(run), theory, bias=0.0)


def erlang_c(servers: int, load: float) -> float:
    """Chance that all servers are busy, at utilisation `load`."""
    offered = servers * load
    busy = offered**servers / math.factorial(servers) / (1 - load)
    return busy / (sum(offered**k / math.factorial(k) for k in range(servers)) + busy)


@BOTH
@pytest.mark.parametrize(("servers", "load"), [(1, 0.6), (3, 0.7), (8, 0.8)])
def test_slots_with_steps_of_equal_time_are_m_m_c(servers: int, load: float, chunked: bool) -> None:
    """T = S + S * erlang_c / (c (1 - load)) for geometric lengths, the discrete exponential.

    Chunked, an arrival waits for the step under way to end, at most one step; unchunked, its prompt is a step
    of its own, made 1 ps long here so that it holds nobody up. Bias: at most 1 step.
    """
    mean = 4_000.0
    prompt = 100
    cost_ps = np.full(prompt + 2, STEP_PS if chunked else 1, np.int64)
    cost_ps[: servers + 1] = STEP_PS
    timing = engine(cost_ps, servers, chunked=chunked)
    prompts, zeros = np.full(REQUESTS, prompt, np.int64), np.zeros(REQUESTS, np.int64)

    def run(rng: np.random.Generator) -> Ints:
        arrival_ps = poisson(rng, mean * STEP_PS / (load * servers))
        lengths = rng.geometric(1 / mean, REQUESTS) + (0 if chunked else 1)
        return simulate_replica(timing, arrival_ps, prompts, lengths, zeros).finish_ps - arrival_ps

    theory = mean * (1 + erlang_c(servers, load) / (servers * (1 - load)))
    assert_agrees(mean_steps(run), theory, bias=1.0)


def lognormal(rng: np.random.Generator, mean: float) -> Ints:
    return np.ceil(rng.lognormal(math.log(mean) - 0.5, 1.0, REQUESTS)).astype(np.int64)


def uniform(rng: np.random.Generator, mean: float) -> Ints:
    return rng.integers(1, int(2 * mean), REQUESTS)


@BOTH
@pytest.mark.parametrize("lengths", [lognormal, uniform])
@pytest.mark.parametrize("load", [0.4, 0.7])
def test_steps_that_take_as_long_as_their_batch_are_m_g_1_processor_sharing(
    load: float, lengths: Callable[[np.random.Generator, float], Ints], chunked: bool
) -> None:
    """T = E[S] / (1 - load) whatever the distribution of lengths (Kleinrock II, 4.4).

    An arrival waits for the step under way, of as many ticks as the batch it meets: seen by it, that lasts
    (Var[N] + E[N]^2) / E[N] = (1 + load) / (1 - load) ticks for geometric N, of which half is left. Rounding
    lengths up adds half a tick to each. Bias: at most that step, and 0.5 / (1 - load) ticks.
    """
    mean = 5_000.0
    ticks = np.arange(513, dtype=np.int64) * STEP_PS
    timing = engine(ticks, 512, chunked=chunked)
    one = np.ones(REQUESTS, np.int64)

    def run(rng: np.random.Generator) -> Ints:
        arrival_ps = poisson(rng, mean * STEP_PS / load)
        return simulate_replica(timing, arrival_ps, one, lengths(rng, mean), one - 1).finish_ps - arrival_ps

    assert_agrees(mean_steps(run), mean / (1 - load), bias=(1.5 + load) / (1 - load))


def test_replicas_in_turn_are_each_fed_every_other_request() -> None:
    """Round robin over 2 single slots makes each an E_2/M/1 queue: T = S / (1 - z), z the root of the embedded
    chain's equation z = (2 load / (2 load + 1 - z))^2. Bias: one step.
    """
    mean, load = 4_000.0, 0.7
    z = 0.5
    for _ in range(200):
        z = (2 * load / (2 * load + 1 - z)) ** 2
    timing = engine(np.full(8, STEP_PS, np.int64), 1, chunked=True)
    one = np.ones(REQUESTS, np.int64)

    def run(rng: np.random.Generator) -> Ints:
        arrival_ps = poisson(rng, mean * STEP_PS / (2 * load))
        replicas = [Replica(timing), Replica(timing)]
        lengths = rng.geometric(1 / mean, REQUESTS)
        return (
            simulate_stage(replicas, "round-robin", arrival_ps, one, lengths, one - 1).finish_ps - arrival_ps
        )

    assert_agrees(mean_steps(run), mean / (1 - z), bias=1.0)

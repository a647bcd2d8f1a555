"""An engine's speed is learnt from what its own metrics count, whatever the traffic and the batch."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from cascadia.clients.engines.totals import Totals, totals
from cascadia.controller.speed.speed import Seen, Speed, factor, ratio_range, together
from cascadia_sim.engine.replica import simulate_replica
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.build import replica_timing
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.scaled_timing import scaled
from cascadia_sim.iteration.timing import PS_PER_S, ReplicaTiming
from cascadia_sim.models.catalogue import architecture

MODEL = architecture("meta-llama/Llama-3.1-8B-Instruct")
WINDOW_S = 60.0


def timing_of(**config: object) -> ReplicaTiming:
    shape = {"tp": config.pop("tp", 1), "pp": config.pop("pp", 1)}
    return replica_timing(MODEL, gpu("h100-sxm"), config=EngineConfig(**config), **shape)  # type: ignore[arg-type]


TIMING = timing_of()


def served(truth: ReplicaTiming, rate_rps: float, windows: int, seed: int = 0) -> list[Seen]:
    """What a replica that really takes `truth` counts in each window of Poisson traffic."""
    rng = np.random.default_rng(seed)
    n = int(rate_rps * WINDOW_S * windows)
    arrival = np.cumsum(rng.exponential(1 / rate_rps, n))
    prompts = np.clip(rng.lognormal(6.0, 0.7, n), 8, 4000).astype(np.int64)
    answers = np.clip(rng.lognormal(5.0, 0.6, n), 4, 900).astype(np.int64)
    run = simulate_replica(
        truth, np.rint(arrival * PS_PER_S).astype(np.int64), prompts, answers, np.zeros(n, np.int64)
    )
    first, last = run.first_token_ps / PS_PER_S, run.finish_ps / PS_PER_S
    found = []
    for k in range(windows):
        lo, hi = k * WINDOW_S, (k + 1) * WINDOW_S
        inside = np.clip(np.minimum(last, hi) - np.maximum(first, lo), 0, None)
        decode_s = float(inside.sum())
        tokens = float((inside / np.maximum(last - first, 1e-9) * (answers - 1)).sum())
        came = (first >= lo) & (first < hi)
        read = float(prompts[came].sum())
        requests = max(int(came.sum()), 1)
        mean = read / requests
        found.append(Seen(WINDOW_S, read, tokens, decode_s, mean, mean + tokens / requests / 2))
    return found


def learnt(seen: list[Seen], timing: ReplicaTiming = TIMING) -> Speed:
    speed = Speed()
    for window in seen:
        found = factor(window, timing)
        if found is not None:
            speed = speed.learnt(found, window.tokens)
    return speed


@pytest.mark.parametrize("rate_rps", [0.5, 4.0, 12.0])
@pytest.mark.parametrize("times", [0.7, 1.0, 1.4])
def test_the_factor_is_found_at_low_and_high_load(rate_rps: float, times: float) -> None:
    found = learnt(served(scaled(TIMING, times, times), rate_rps, 12))
    assert found.sure
    assert found.factor == pytest.approx(times, rel=0.06)


def test_pipelines_are_understood() -> None:
    timing = timing_of(tp=2, pp=2)
    assert learnt(served(scaled(timing, 1.2, 1.2), 8.0, 12), timing).factor == pytest.approx(1.2, rel=0.08)


def test_nothing_is_concluded_from_few_windows_or_few_tokens() -> None:
    few = served(TIMING, 4.0, 3)
    assert not learnt(few).sure
    assert learnt(few).range == (0.0, inf)
    assert factor(replace(few[0], tokens=15.0), TIMING) is None
    assert factor(replace(few[0], seconds=0.0), TIMING) is None


def test_a_change_is_followed_and_what_was_before_fades() -> None:
    speed = Speed()
    for _ in range(60):
        speed = speed.learnt(1.0, 2000)
    for _ in range(60):
        speed = speed.learnt(1.5, 2000)
    assert speed.factor == pytest.approx(1.5, rel=0.08)


def test_the_range_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(300):
        speed = Speed()
        for _ in range(20):
            speed = speed.learnt(float(1.3 * np.exp(0.1 * rng.standard_normal())), 1000)
        low, high = speed.range
        held += low <= 1.3 <= high
    assert held >= 0.92 * 300


def test_equal_replicas_together_know_more_and_a_slower_one_stands_out() -> None:
    rng = np.random.default_rng(1)

    def one(times: float) -> Speed:
        speed = Speed()
        for _ in range(15):
            speed = speed.learnt(float(times * np.exp(0.1 * rng.standard_normal())), 1000)
        return speed

    usual, slow = [one(1.0) for _ in range(3)], one(1.4)
    assert together(usual).windows > usual[0].windows
    ratio, low, high = ratio_range(slow, together(usual))
    assert low > 1.2
    assert low < ratio < high
    assert ratio_range(usual[0], together(usual[1:]))[1] < 1.05


VLLM = """
vllm:prompt_tokens_total{engine="0",model_name="m"} 5000.0
vllm:generation_tokens_total{engine="0",model_name="m"} 2100.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"} 40.0
vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 2000.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 9.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 100.0
"""
LLAMA = """
llamacpp:prompt_tokens_total 6886
llamacpp:prompt_seconds_total 2903.63
llamacpp:tokens_predicted_total 3469
llamacpp:tokens_predicted_seconds_total 3544.27
"""


def test_each_engines_own_names_are_read() -> None:
    vllm = totals(VLLM)
    assert vllm == Totals(5000.0, 2000.0, 40.0, 100.0, 9.0)
    assert totals(VLLM.replace("vllm:", "sglang:")) == vllm
    assert totals(VLLM.replace("inter_token_latency", "time_per_output_token")) == vllm
    assert totals(LLAMA) == Totals(6886.0, 3469.0, 3544.27)
    two = VLLM + VLLM.replace('engine="0"', 'engine="1"')
    assert totals(two) == Totals(10_000.0, 4000.0, 80.0, 200.0, 18.0)
    for text in ("", "up 1\n", VLLM.replace("inter_token_latency", "other")):
        assert totals(text) is None


def test_what_came_between_two_looks_and_an_engine_that_started_anew() -> None:
    before, after = Totals(10.0, 20.0, 1.0, 2.0, 0.5), Totals(110.0, 220.0, 5.0, 4.0, 1.5)
    assert after.since(before) == Totals(100.0, 200.0, 4.0, 2.0, 1.0)
    assert before.since(after) is None
    assert Totals(110.0, 220.0, 5.0).since(before) == Totals(100.0, 200.0, 4.0)


def test_what_was_learnt_makes_a_replica_as_much_slower() -> None:
    slow = replica_timing(
        MODEL, gpu("h100-sxm"), tp=1, pp=1, config=EngineConfig(learned=(("h100-sxm", 1.5),))
    )
    elsewhere = replica_timing(
        MODEL, gpu("h100-sxm"), tp=1, pp=1, config=EngineConfig(learned=(("h200-sxm", 1.5),))
    )
    assert np.abs(slow.token_ps - 1.5 * TIMING.token_ps).max() <= 1
    assert np.array_equal(elsewhere.token_ps, TIMING.token_ps)

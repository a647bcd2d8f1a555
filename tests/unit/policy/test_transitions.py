"""The factored transitions against equations 1 to 3 of RAMSIS, summed as they stand."""

from math import exp, factorial

import numpy as np
import pytest

from cascadia.domain.workload import Floats
from cascadia.policy.arrivals import Empirical, GammaGaps, Poisson
from cascadia.policy.problem import ModelProfile, Problem, problem
from cascadia.policy.transitions import Transitions, transitions

RATE_RPS, SLO_S = 60.0, 0.1
MODELS = (
    ModelProfile("one", 80.0, (0.03, 0.05, 0.06, 0.07)),
    ModelProfile("two", 90.0, (0.05, 0.08, 0.095, 0.1)),
)


def as_printed(posed: Problem, n: int, j: int, lasts_s: float) -> Floats:
    """P[(n', T_j')] by equation 2 for n' from 1 on, and in row 0 for no request at all."""
    workers, slack_s = posed.workers, posed.slack_s

    def arrive(k: int, t: float) -> float:
        return exp(-RATE_RPS * t) * (RATE_RPS * t) ** k / factorial(k) if k >= 0 else 0.0

    out = np.zeros((posed.queued_max + 1, len(slack_s)))
    t_a = SLO_S - slack_s[j]
    total = 0.0
    for k_a in range((n - 1) * workers, n * workers):
        total += arrive(k_a, t_a)
        missing = workers - k_a % workers
        for at in range(len(slack_s)):
            above_s = slack_s[at + 1] if at + 1 < len(slack_s) else SLO_S
            t_b = 0.0 if at == 0 else min(max(lasts_s + slack_s[at] - SLO_S, 0), lasts_s)
            t_c = max(min(lasts_s + above_s - SLO_S, lasts_s) - t_b, 0)
            t_d = max(lasts_s - t_b - t_c, 0)
            for k_b in range(missing):
                for n_next in range(1, posed.queued_max + 1):
                    for k_c in range(missing - k_b, (n_next + 1) * workers + missing - workers - k_b):
                        least = max(0, n_next * workers - workers + missing - k_b - k_c)
                        most = n_next * workers + missing - 1 - k_b - k_c
                        rest = sum(arrive(k, t_d) for k in range(least, most + 1))
                        chance = arrive(k_a, t_a) * arrive(k_b, t_b) * arrive(k_c, t_c) * rest
                        out[n_next, at] += chance
        out[0, 0] += arrive(k_a, t_a) * sum(arrive(k, lasts_s) for k in range(missing))
    return out / total


def factored(kernel: Transitions, m: int, n: int, j: int) -> Floats:
    phase = kernel.phase[n - 1, j]
    first = phase @ kernel.first[m, n - 1]
    none = np.zeros((1, len(first)))
    none[0, 0] = phase @ kernel.none[m, n - 1]
    return np.concatenate([none, (first[:, None] * kernel.count).T])


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("n", "slack"), [(1, 1.0), (1, 0.6), (2, 0.5)])
def test_equation_2_is_met_up_to_the_width_of_a_step(workers: int, n: int, slack: float) -> None:
    posed = problem(MODELS, Poisson(RATE_RPS), slo_s=SLO_S, workers=workers, slack_steps=20)
    kernel = transitions(posed)
    j = round(slack * 20)
    apart = np.abs(factored(kernel, 0, n, j) - as_printed(posed, n, j, MODELS[0].latency_s[n - 1])).sum()
    # The age of the earliest is anywhere within a step here, at its end there: 5 ms at 60 a second.
    assert apart < 0.12


def test_the_difference_to_equation_2_goes_with_the_steps() -> None:
    apart = []
    for steps in (10, 20, 40):
        posed = problem(MODELS[:1], Poisson(RATE_RPS), slo_s=SLO_S, workers=1, slack_steps=steps)
        printed = as_printed(posed, 1, steps // 2, MODELS[0].latency_s[0])
        apart.append(np.abs(factored(transitions(posed), 0, 1, steps // 2) - printed).sum())
    assert apart[2] < 0.6 * apart[1] < 0.4 * apart[0]


@pytest.mark.parametrize("steps", [30, None])
@pytest.mark.parametrize("law", [Poisson(400.0), GammaGaps(400.0, 0.3)])
def test_what_may_happen_sums_to_one(steps: int | None, law: Poisson | GammaGaps) -> None:
    posed = problem(MODELS, law, slo_s=SLO_S, workers=7, slack_steps=steps)
    kernel = transitions(posed)
    assert kernel.first.sum(axis=3) + kernel.none == pytest.approx(1)
    assert kernel.count.sum(axis=1) + kernel.full == pytest.approx(1)
    assert kernel.phase.sum(axis=2) == pytest.approx(1)
    assert posed.slack_s[0] == 0
    assert posed.slack_s[-1] == SLO_S


def test_an_empty_queue_waits_as_long_as_the_arrivals_of_the_others_take() -> None:
    posed = problem(MODELS, Poisson(RATE_RPS), slo_s=SLO_S, workers=3, slack_steps=10)
    kernel = transitions(posed)
    assert kernel.idle_s == pytest.approx([3 / 60, 2 / 60, 1 / 60, 3 / 60])
    rng = np.random.default_rng(0)
    third_s = rng.gamma(3, 1 / RATE_RPS, 200_000)
    assert kernel.wait_s[0, 0, 0] == pytest.approx(np.maximum(third_s - 0.03, 0).mean(), rel=0.01)


def test_gamma_gaps_of_shape_1_and_a_poisson_trace_are_poisson() -> None:
    times_s = np.array([0.0, 0.01, 0.05, 0.1])
    poisson = Poisson(50.0).at_least(times_s, 12, after=True)
    assert GammaGaps(50.0, 1.0).at_least(times_s, 12, after=True) == pytest.approx(poisson, abs=1e-9)
    trace_s = np.cumsum(np.random.default_rng(1).exponential(3.0, 100_000))
    assert Empirical(trace_s, 50.0).at_least(times_s, 12, after=True) == pytest.approx(poisson, abs=0.03)
    assert poisson[0] == pytest.approx([1, *[0] * 12], abs=1e-12)


def test_bursty_gaps_bring_more_at_once() -> None:
    times_s = np.array([0.1])
    assert (
        GammaGaps(50.0, 0.3).at_least(times_s, 10, after=True)[0, 10]
        > Poisson(50.0).at_least(times_s, 10, after=True)[0, 10]
    )


def test_a_trace_that_is_too_short_says_so() -> None:
    with pytest.raises(ValueError, match="at least two arrivals"):
        Empirical(np.array([1.0, 1.0]), 5.0)
    with pytest.raises(ValueError, match="shorter than"):
        Empirical(np.arange(3.0), 1.0).at_least(np.array([10.0]), 3, after=True)

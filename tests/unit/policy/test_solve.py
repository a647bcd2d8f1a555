from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from cascadia.domain.policy import Policies
from cascadia.planner.policies.played import play
from cascadia.planner.policies.tables import group
from cascadia.policy.arrivals import Arrivals, GammaGaps, Poisson
from cascadia.policy.problem import ModelProfile, Problem, on_the_front, problem
from cascadia.policy.solve import Solution, solve
from cascadia.policy.transitions import transitions
from cascadia.policy.variable import solve_variable
from tests.unit.policy.profiles import profiles

SLO_S = 0.1


def posed(rate_rps: float, workers: int, law: Arrivals | None = None, **options: object) -> Problem:
    asked = {"slo_s": SLO_S, **options}
    return problem(profiles(), law or Poisson(rate_rps), workers=workers, **asked)  # type: ignore[arg-type]


def as_policies(solution: Solution) -> Policies:
    p = solution.problem
    return Policies(
        "g", p.names, slo_s=p.slo_s, workers=p.workers, queue="worker", index="rate",
        levels=(solution.policy(),), late=p.late,
    )  # fmt: skip


def poisson_arrivals(rate_rps: float, n: int = 100_000) -> np.ndarray:
    return np.cumsum(np.random.default_rng(7).exponential(1 / rate_rps, n))


def gain_of(p: Problem, action: np.ndarray) -> float:
    """Reward in a second of one table, by the stationary distribution of all states, written out."""
    kernel = transitions(p)
    most, steps = action.shape
    states = [(n, j) for n in range(most) for j in range(steps)]
    index = {state: i for i, state in enumerate(states)}
    full = len(states)
    chance = np.zeros((full + 1, full + 1))
    reward, time_s = np.zeros(full + 1), np.zeros(full + 1)
    for i, (n, j) in enumerate([*states, (most - 1, 0)]):
        m = action[n, j]
        lasts_s = kernel.latency_s[m, n]
        phase = kernel.phase[n, j]
        reward[i] = (n + 1) * p.models[m].accuracy * (lasts_s <= p.slack_s[j] + 1e-12)
        time_s[i] = lasts_s + phase @ kernel.wait_s[m, n]
        chance[i, index[0, steps - 1]] += phase @ kernel.none[m, n]
        for at, share in enumerate(phase @ kernel.first[m, n]):
            chance[i, full] += share * kernel.full[at]
            for n_next in range(most):
                chance[i, index[n_next, at]] += share * kernel.count[at, n_next]
    visits = np.full(full + 1, 1 / (full + 1))
    for _ in range(3000):
        visits = 0.5 * visits + 0.5 * visits @ chance
    return float(visits @ reward / (visits @ time_s))


def test_no_table_of_a_small_problem_earns_more() -> None:
    """All tables are tried: of each state whose actions are more than one, each."""
    models = (ModelProfile("a", 60.0, (0.02, 0.03)), ModelProfile("b", 90.0, (0.05, 0.09)))
    p = problem(models, Poisson(25.0), slo_s=SLO_S, workers=2, slack_steps=4)
    p = replace(p, queued_max=2)
    solution = solve(p)
    free = [
        (n, j)
        for n in range(2)
        for j in range(5)
        if all(model.latency_s[n] <= p.slack_s[j] + 1e-12 for model in models)
    ]
    assert 2 <= len(free) <= 8
    best = -np.inf
    for chosen in product((0, 1), repeat=len(free)):
        action = np.zeros((2, 5), np.int64)
        for (n, j), m in zip(free, chosen, strict=True):
            action[n, j] = m
        best = max(best, gain_of(p, action))
    assert gain_of(p, solution.action) == pytest.approx(best, rel=1e-6)
    assert solution.expected.reward == pytest.approx(best / (25.0 / 2), rel=1e-3)


@pytest.mark.parametrize(("rate_rps", "workers"), [(30, 1), (120, 4), (220, 4), (1200, 20)])
@pytest.mark.parametrize("late", ["serve", "drop"])
def test_what_is_expected_is_what_the_simulator_plays(rate_rps: float, workers: int, late: str) -> None:
    solution = solve(posed(rate_rps, workers, late=late))
    played = play(as_policies(solution), profiles(), poisson_arrivals(rate_rps), skip=1000)
    expected = solution.expected
    assert expected.accuracy == pytest.approx(played.accuracy, abs=0.35)
    assert expected.late >= played.late - 1e-3
    assert expected.full < 1e-4
    # A lower bound, but for the sample's own error.
    assert expected.reward <= played.reward + 0.1


@pytest.mark.parametrize("seed", range(12))
def test_where_many_are_refused_no_more_is_expected_than_the_simulator_plays(seed: int) -> None:
    """A part of the queue is served, and the rest refused: kept, it would be late and make others late."""
    rng = np.random.default_rng(seed)
    models = tuple(
        ModelProfile(
            f"m{m}", 60.0 + 10 * m, tuple(0.01 * (m + 1) + rng.uniform(0.002, 0.01) * np.arange(1, 17))
        )
        for m in range(int(rng.integers(1, 3)))
    )
    slo_s = float(rng.uniform(3, 6) * models[0].latency_s[0])
    workers = int(rng.integers(1, 7))
    rate_rps = float(rng.uniform(0.5, 1.0) * workers * models[0].throughput_rps(slo_s))
    solution = solve(problem(models, Poisson(rate_rps), slo_s=slo_s, workers=workers, late="drop"))
    made = group("g", models, slo_s=slo_s, workers=workers, late="drop")
    policies = made.policies([solution.policy()], "mdp", queue="worker")
    assert any(any(row.refuses) for row in policies.levels[0].rows)
    played = play(policies, models, poisson_arrivals(rate_rps), skip=1000)
    assert solution.expected.full < 1e-3
    # A lower bound, but for the sample's own error.
    assert solution.expected.reward <= played.reward + 0.3


def test_bursts_are_expected_too() -> None:
    law = GammaGaps(120.0, 0.3)
    solution = solve(posed(120.0, 4, law))
    arrival_s = np.cumsum(np.random.default_rng(3).gamma(0.3, 1 / 0.3 / 120, 200_000))
    played = play(as_policies(solution), profiles(), arrival_s, skip=1000)
    assert solution.expected.reward == pytest.approx(played.reward, abs=0.5)
    for_poisson = play(as_policies(solve(posed(120.0, 4))), profiles(), arrival_s, skip=1000)
    assert played.late < 0.2 * for_poisson.late


def test_a_bound_on_lateness_is_kept_at_the_price_of_accuracy() -> None:
    plain, bound = solve(posed(45, 1)), solve(posed(45, 1), late_max=0.01)
    assert plain.expected.late > 0.01 >= bound.expected.late
    assert bound.expected.accuracy < plain.expected.accuracy
    assert bound.expected.reward <= plain.expected.reward + 1e-9
    played = play(as_policies(bound), profiles(), poisson_arrivals(45), skip=1000)
    assert played.late <= 0.01


def test_where_no_policy_keeps_the_bound_the_least_late_is_taken() -> None:
    solution = solve(posed(150, 1), late_max=0.01)
    assert solution.expected.late > 0.01
    assert solution.expected.full > 1e-4


def test_the_policy_takes_better_models_where_there_is_time() -> None:
    policy = solve(posed(120, 4)).policy()
    accuracy = {model.name: model.accuracy for model in profiles()}
    calm, pressed = policy.decide(1, SLO_S).model, policy.decide(4, SLO_S / 2).model
    assert accuracy[calm] > accuracy[pressed]


def test_a_worker_that_is_dealt_to_very_evenly_is_solved_too() -> None:
    """Where its queue always or never empties, both are closed, and neither may be mistaken for the best."""
    best = {steps: solve(posed(2400, 60, slack_steps=steps)).expected.reward for steps in (100, 200)}
    assert best[200] == pytest.approx(best[100], abs=0.1)


def test_models_off_the_front_are_left_out() -> None:
    front = profiles()
    slow_and_weak = ModelProfile("weak", 61.0, front[-1].latency_s)
    twin = replace(front[0], name="zzz")
    assert on_the_front([slow_and_weak, *reversed(front), twin]) == front


def test_a_model_that_is_never_in_time_is_left_out_and_none_is_refused() -> None:
    assert "huge" not in posed(10, 1, slo_s=0.08).names
    with pytest.raises(ValueError, match=r"no model answers within 0\.005 s; the fastest takes 0\.01 s"):
        posed(10, 1, slo_s=0.005)


@pytest.mark.parametrize("solved", [lambda: solve(little()), lambda: solve_variable(little())])
def test_linear_algebra_is_done_on_one_thread_and_left_as_it_was(
    solved: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """More threads wait for each other at full speed where others use the machine: 18.7 CPU-seconds where 1.7 do."""

    def threads() -> set[int]:
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    linear, before = np.linalg.solve, threads()
    during: list[set[int]] = []

    def watched(*args: np.ndarray) -> np.ndarray:
        during.append(threads())
        return linear(*args)

    monkeypatch.setattr(np.linalg, "solve", watched)
    with threadpool_limits(2, user_api="blas"):
        solved()
        assert threads() == {2}
    assert during
    assert all(each == {1} for each in during)
    assert threads() == before


def little() -> Problem:
    models = (ModelProfile("a", 60.0, (0.01,)), ModelProfile("b", 80.0, (0.03,)))
    return problem(models, Poisson(40.0), slo_s=0.1, workers=1, slack_steps=6)

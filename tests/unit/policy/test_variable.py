"""Variable batching: what is solved beside what is played, and beside the whole queue as one batch."""

import numpy as np
import pytest

from cascadia.planner.policies import rivals
from cascadia.planner.policies.played import Outcome, play
from cascadia.planner.policies.tables import group
from cascadia.policy import variable
from cascadia.policy.arrivals import Poisson
from cascadia.policy.problem import ModelProfile, Problem, problem
from cascadia.policy.solve import Solution, solve
from cascadia.policy.transitions import transitions
from cascadia.policy.variable import solve_variable, variable_problem
from tests.unit.policy.profiles import profiles
from tests.unit.policy.test_solve import as_policies, poisson_arrivals


def posed(rate_rps: float, workers: int) -> Problem:
    return problem(profiles(), Poisson(rate_rps), slo_s=0.1, workers=workers, slack_steps=16)


def played(solution: Solution, rate_rps: float) -> Outcome:
    return play(as_policies(solution), solution.problem.models, poisson_arrivals(rate_rps, 20_000), skip=500)


def test_the_whole_queue_as_a_batch_is_valued_as_by_the_solver_of_that() -> None:
    p = posed(200.0, 3)
    whole, kernel = solve(p), transitions(posed(200.0, 3))
    most = p.queued_max
    _, served = variable._choices(p, kernel)
    action = whole.action * most + np.arange(most)[:, None]
    _, _, passed = variable._value(p, kernel, variable._parts(p, kernel), served, action, 0.0)
    expected = variable._expected(p, served, action, passed)
    assert expected.reward == pytest.approx(whole.expected.reward, rel=1e-5)
    assert expected.late == pytest.approx(whole.expected.late, abs=1e-5)


def test_chances_of_parts_add_up() -> None:
    p = posed(200.0, 3)
    parts = variable._parts(p, transitions(p))
    for n in range(1, p.queued_max):
        np.testing.assert_allclose(parts.stays[n, :n, :-1].sum(axis=2), 1.0, atol=1e-9)
    for m, model in enumerate(p.models):
        np.testing.assert_allclose(parts.joins[m, : len(model.latency_s)].sum(axis=2), 1.0)
        np.testing.assert_allclose(parts.moves[m, : len(model.latency_s)].sum(axis=2), 1.0)


def test_one_worker_is_right_more_often_with_a_part_of_its_queue() -> None:
    """In time as asked, and as expected."""
    rate = 0.6 * max(model.throughput_rps(0.1) for model in profiles())
    part, whole = solve_variable(posed(rate, 1), 0.01), solve(posed(rate, 1), 0.01)
    found = played(part, rate)
    assert found.late <= 0.01
    assert found.accuracy > played(whole, rate).accuracy + 1.5
    assert found.accuracy == pytest.approx(part.expected.accuracy, abs=0.3)


def test_batches_of_one_have_a_queue_all_the_same() -> None:
    models = (ModelProfile("a", 60.0, (0.01,)), ModelProfile("b", 80.0, (0.03,)))
    p = problem(models, Poisson(40.0), slo_s=0.1, workers=1, slack_steps=16)
    solution = solve_variable(variable_problem(p), 0.01)
    assert solution.problem.queued_max == 11
    found = played(solution, 40.0)
    assert found.late <= 0.01
    assert 66.0 < found.accuracy < 80.0


def test_a_ladder_of_them_is_a_rival_on_few_workers_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = (ModelProfile("a", 60.0, (0.02,)), ModelProfile("b", 80.0, (0.03,)))
    solved: list[tuple[str, bool]] = []

    def ladder(*_: object, kind: str, variable: bool, **__: object) -> None:
        solved.append((kind, variable))

    monkeypatch.setattr(rivals, "mdp_ladder", ladder)
    arrival_s = poisson_arrivals(20.0, 400)
    for asked, workers in ((True, 1), (False, 1), (True, 5)):
        wanted = rivals.Wanted(arrival_s, slo_s=0.1, late_max=0.05, accuracy_min=None, variable=asked)
        solved.clear()
        list(rivals._solved(group("g", models, slo_s=0.1, workers=workers), wanted))
        assert [kind for kind, variable in solved if variable] == (
            ["mdp-variable"] if asked and workers == 1 else []
        )
        assert len(solved) == 2 + (asked and workers == 1)
